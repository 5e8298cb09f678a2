"""The environment of a worker: an allow-list, from which nothing that loads code is taken."""

from __future__ import annotations

import pytest

from harness.run.environment import logged, passed_on, worker_environment

CODE = (
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "LD_PRELOAD",
    "LD_AUDIT",
    "CUDA_INJECTION64_PATH",
    "OMP_TOOL_LIBRARIES",
    "HSA_TOOLS_LIB",
    "NCCL_NET_PLUGIN",
    "NCCL_TUNER_PLUGIN",
    "NCCL_CONF_FILE",
    "TTA_DATA",
    "TTA_POWER_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "MASTER_ADDR",
    "RANK",
    "HOME",
)


@pytest.mark.parametrize("name", CODE)
def test_code_secrets_and_places_stay_outside(name: str) -> None:
    """By their names, whatever their values are."""
    assert passed_on({name: "x"}) == {}


@pytest.mark.parametrize(
    "name", ["PATH", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "NCCL_DEBUG", "OMP_NUM_THREADS", "MKL_CBWR"]
)
def test_devices_and_arithmetic_are_taken_over(name: str) -> None:
    """With their values as they are."""
    assert passed_on({name: "x y"}) == {name: "x y"}


def test_threads_are_shared_unless_the_user_says_how_many() -> None:
    """Never fewer than one each."""
    assert worker_environment({}, "/h", 3, 8, False)["OMP_NUM_THREADS"] == "2"
    assert worker_environment({}, "/h", 3, 2, False)["OMP_NUM_THREADS"] == "1"
    assert worker_environment({"OMP_NUM_THREADS": "5"}, "/h", 3, 8, False)["OMP_NUM_THREADS"] == "5"


def test_home_and_interfaces_are_the_workers_own() -> None:
    """Nothing of the user's home; in a network namespace, what a rank talks through is loopback."""
    environment = worker_environment({"HOME": "/root", "TMPDIR": "/scratch"}, "/h", 1, 1, True)

    assert {environment[name] for name in ("HOME", "TMPDIR", "PWD")} == {"/h"}
    assert environment["GLOO_SOCKET_IFNAME"] == environment["NCCL_SOCKET_IFNAME"] == "lo"
    assert "GLOO_SOCKET_IFNAME" not in worker_environment({}, "/h", 1, 1, False)


def test_log_has_the_names_in_order_and_no_control_characters() -> None:
    """Values come from outside."""
    assert list(logged({"PATH": "a\x1b[2J", "LANG": "C"}).items()) == [("LANG", "C"), ("PATH", "a\\x1b[2J")]
