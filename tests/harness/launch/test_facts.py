"""Twelve ways in which nodes cannot make a run together, and what is only odd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.launch import facts

NODE: dict[str, Any] = {
    "host": "n1",
    "boot_id": "a",
    "code": "c" * 64,
    "packages": "p" * 64,
    "installed": ["torch-2.9", "numpy-2.4"],
    "torch": "2.9",
    "accelerators": ["H100", "H100"],
    "num_cores": 8,
    "variables": {"NCCL_DEBUG": "INFO", "LANG": "C"},
    "restarts": "0",
    "data_dir": "/data/prepared/data",
    "data": "d" * 64,
    "num_marked": 0,
    "ahead_s": 0.0,
}


def two(**changes: Any) -> dict[str, dict[str, Any]]:
    return {"node 0 (n1)": NODE, "node 1 (n2)": {**NODE, "boot_id": "b", **changes}}


def test_equal_nodes_are_accepted() -> None:
    assert facts.refusals(two(), 2, is_metered=True) == []
    assert facts.warnings(two(), 2) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"code": "e" * 64}, "its code of tta is not that of node 0 (n1); install"),
        ({"torch": "2.8", "packages": "q" * 64}, "has torch 2.8, node 0 (n1) has 2.9; install"),
        ({"packages": "q" * 64}, "the same names, with other files"),
        (
            {"packages": "q" * 64, "installed": ["torch-2.9", "a-1", "b-1", "c-1", "d-1"]},
            "only it has a-1, b-1, c-1 and 1 more; it has not numpy-2.4",
        ),
        ({"data": None}, "has not the data in /data/prepared/data; prepare them there"),
        ({"data": "e" * 64}, "the digest of its data is eeeeeeeeeeeeeeee…, that of node 0 (n1) dddddddddddddddd…"),
        ({"restarts": "1"}, "started this job again (SLURM_RESTART_COUNT=1)"),
        ({"accelerators": ["A100", "A100"]}, "has A100, A100, node 0 (n1) has H100, H100; use nodes of one kind"),
        ({"accelerators": ["H100"]}, "--devices 2: it has 1 accelerators that can be used"),
        ({"accelerators": []}, "has no accelerator, node 0 (n1) has H100, H100"),
        ({"ahead_s": 3.21}, "its clock is 3.2 s ahead of that of node 0 (n1)"),
        ({"ahead_s": -3.21}, "its clock is 3.2 s behind that of node 0 (n1)"),
    ],
)
def test_mismatch_names_the_node_the_difference_and_the_remedy(changes: dict[str, Any], message: str) -> None:
    found = facts.refusals(two(**changes), 2, is_metered=True)

    assert [sentence for sentence in found if message in sentence and sentence.startswith("node 1 (n2): ")], found


def test_fault_of_the_referees_own_node_is_named_too() -> None:
    (found,) = facts.refusals({"node 0 (n1)": {**NODE, "restarts": "2"}}, 1, is_metered=False)

    assert found.startswith("node 0 (n1): the scheduler has started this job again")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"boot_id": "a"}, "node 1 (n2): is on the same machine as node 0 (n1)"),
        ({"variables": {"NCCL_DEBUG": "WARN"}}, "node 1 (n2): NCCL_DEBUG differ from those of node 0 (n1)"),
        ({"num_marked": 3}, "node 1 (n2): 3 processes of another run on several nodes are there"),
        ({"ahead_s": 1.0}, "node 1 (n2): its clock is 1.0 s ahead of that of node 0 (n1)"),
        (
            {"accelerators": [], "num_cores": 1},
            "node 1 (n2): no accelerator: --devices 2 starts 2 processes that share 1 core",
        ),
    ],
)
def test_oddity_is_said_and_refuses_nothing(changes: dict[str, Any], message: str) -> None:
    assert facts.warnings(two(**changes), 2) == [message]


def test_clocks_apart_refuse_only_where_power_is_metered() -> None:
    assert facts.refusals(two(ahead_s=5.0), 2, is_metered=False) == []


def test_more_processes_than_devices_are_refused_or_explained() -> None:
    assert facts.too_many_devices(8, 1) == "--devices 8: it has 1 accelerators that can be used"
    assert facts.too_many_devices(8, 8) is None
    assert facts.too_many_devices(8, 0) is None
    assert facts.shared_cores(8, 0, 2) == "no accelerator: --devices 8 starts 8 processes that share 2 cores"
    assert facts.shared_cores(1, 0, 2) is None
    assert facts.shared_cores(8, 8, 2) is None


@pytest.mark.parametrize(("value", "num_usable"), [(None, 3), ("0,2", 2), ("", 0), ("-1", 0)])
def test_variable_limits_the_accelerators(monkeypatch: pytest.MonkeyPatch, value: str | None, num_usable: int) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    if value is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)

    assert len(facts.usable(["H100"] * 3)) == num_usable


def test_facts_of_this_node_have_the_digest_of_its_data(tmp_path: Path) -> None:
    data = tmp_path / "prepared" / "data"
    assert facts.look(data)["data"] is None
    data.mkdir(parents=True)
    assert facts.look(data)["data"] is None  # damaged
    (data / "metadata.json").write_text("{}")

    found = facts.look(data)

    assert len(found["data"]) == len(found["code"]) == 64
    assert found["data_dir"] == str(data)
    assert facts._version("no-such-package") is None
