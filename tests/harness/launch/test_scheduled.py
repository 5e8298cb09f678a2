"""A task of a scheduler's job knows its node from its own environment, and what its scheduler says by a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.errors import TtaError, UsageError
from harness.launch import scheduled
from harness.launch.scheduled import Container, ScheduledLauncher, facts_of, launch_here, task_of
from tests.killing import until

ADDRESS = "192.0.2.1"  # of documentation: no one has it
TASK = {"TTA_NODES": "n1 n2", "TTA_FIRST_NODE": f"{ADDRESS}:20017", "SLURM_NODEID": "1", "TTA_NODE_TOKEN": "t" * 32}
HEX = "0123456789abcdef" * 4


def test_task_is_the_one_that_its_environment_says() -> None:
    """The number is read on the node itself, by the name that the scheduler has for it."""
    by_kubernetes = {**TASK, "JOB_COMPLETION_INDEX": "0"}

    assert task_of("slurm", TASK) == scheduled.Task("slurm", 1, ("n1", "n2"), ADDRESS, 20017)
    assert getattr(task_of("k8s", by_kubernetes), "number", None) == 0
    assert task_of("slurm", {"SLURM_NODEID": "0"}) is None  # of some other job


@pytest.mark.parametrize(
    "changed", [{"SLURM_NODEID": "2"}, {"SLURM_NODEID": ""}, {"TTA_FIRST_NODE": "n1"}, {"TTA_NODES": ""}]
)
def test_environment_that_is_no_tasks_is_refused(changed: dict[str, str]) -> None:
    """Rather than guessed at."""
    with pytest.raises(UsageError, match="the environment is not that of a task"):
        task_of("slurm", {**TASK, **changed})


def test_helpers_come_by_themselves_and_a_lost_one_is_reached_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the latter needs `srun`, which a container has not."""
    task = task_of("slurm", TASK)
    assert task is not None
    launcher = ScheduledLauncher(task, None, {"kind": "slurm"})
    node = launcher.nodes[1]
    monkeypatch.setenv("PATH", str(tmp_path))

    handle = launcher.start(node, ["tta"], "token")
    assert (node.name, launcher.nodes[0].address, handle.ended()) == ("n2", ADDRESS, None)
    assert launcher.facts() == {"kind": "slurm"}
    with pytest.raises(UsageError, match=r"node 1 \(n2\): cannot be reached"):
        launcher.start(node, ["tta"], "token")

    (tmp_path / "srun").write_text('#!/bin/sh\necho "$*" >&2\nexit 3\n')
    (tmp_path / "srun").chmod(0o755)
    again = launcher.start(node, ["tta", "node"], "token")
    assert until(again.ended)
    assert str(again.ended()).endswith("--nodelist=n2 tta node")
    again.close(1)


def test_first_node_needs_an_address_that_others_reach() -> None:
    """Not the loopback's; a pattern leads from its name to another one."""
    task = task_of("slurm", {**TASK, "TTA_FIRST_NODE": "127.0.0.1:20017", "TTA_NODES": f"{ADDRESS} n2"})
    assert task is not None

    with pytest.raises(UsageError, match=r"the first node: 127\.0\.0\.1 is 127\.0\.0\.1, where no other node"):
        ScheduledLauncher(task, None, {})
    assert ScheduledLauncher(task, "{}", {}).nodes[0].address == ADDRESS


def test_helper_says_which_node_it_is_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """All tasks of a job write to one screen."""

    def lost(address: str, *arguments: Any) -> None:
        raise TtaError(f"--connect {address}: nothing can be reached there")

    monkeypatch.setattr("harness.launch.helper.main", lost)
    monkeypatch.setattr(scheduled, "hold_warning", lambda: None)
    for name, value in TASK.items():
        monkeypatch.setenv(name, value)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["run", "detection", "--launcher", "slurm", "--nodes", "2", "--address-of", "{}-ib"]) == 2
    finally:
        signal.signal(signal.SIGTERM, before)

    assert "node 1 (n2): --connect n1-ib:20017: nothing can be reached there" in capsys.readouterr().err


def test_warning_is_seen_and_ends_nothing() -> None:
    """Not even a process that is started meanwhile, and where a shell has it ignored."""
    code = """
import os, signal, subprocess
from harness.launch.scheduled import hold_warning, is_warned
hold_warning()
child = subprocess.Popen(["sleep", "100"])
assert not is_warned()
for pid in (child.pid, os.getpid()):
    os.kill(pid, signal.SIGUSR1)
assert is_warned() and is_warned() and child.poll() is None
child.kill()
"""
    for ignored in (":", 'trap "" USR1'):
        command = ["bash", "-c", f'{ignored}; exec "$@"', "task", sys.executable, "-c", code]
        assert subprocess.run(command, env={**os.environ}, check=False).returncode == 0


def test_log_has_job_version_and_image() -> None:
    """Of Slurm; of Kubernetes the image alone."""
    environment = {"SLURM_JOB_ID": "17", "TTA_SLURM_VERSION": "slurm 22", "TTA_IMAGE_DIGEST": "sha256:0"}

    facts = {"kind": "slurm", "job": "17", "version": "slurm 22", "image": "sha256:0"}
    assert facts_of("slurm", environment) == facts
    assert facts_of("k8s", environment) == {"kind": "k8s", "image": "sha256:0"}
    assert facts_of("slurm", {}) == {**dict.fromkeys(facts), "kind": "slurm"}


def test_run_on_the_one_node_of_a_job_names_it() -> None:
    """Started by the job's script, or typed into another one; not where a job's variables are without its node."""
    batch = {"SLURM_JOB_ID": "17", "SLURMD_NODENAME": "n1"}
    scripted = {**batch, "TTA_NODES": "n1", "TTA_IMAGE_DIGEST": "sha256:0", "TTA_SLURM_VERSION": "slurm 22"}
    pod = {"TTA_NODES": "tta-0.tta", "TTA_IMAGE_DIGEST": "sha256:0"}

    assert launch_here(None, {}, 1) is None
    assert launch_here("local", {"SLURM_JOB_ID": "17"}, 1) is None
    for kind, environment, launcher in (
        (None, batch, {"kind": "slurm", "job": "17", "version": None, "image": None}),
        ("slurm", scripted, {"kind": "slurm", "job": "17", "version": "slurm 22", "image": "sha256:0"}),
        ("k8s", pod, {"kind": "k8s", "image": "sha256:0"}),
    ):
        found = launch_here(kind, environment, 4)
        assert found is not None
        assert (found["launcher"], found["ranks_per_node"]) == (launcher, 4)
        assert [node["name"] for node in found["nodes"]] == [environment.get("TTA_NODES", "n1")]


@pytest.mark.parametrize(
    ("image", "digest", "for_enroot", "for_apptainer"),
    [
        (f"host:5000#a/b:1.0@sha256:{HEX}", f"sha256:{HEX}", f"host:5000#a/b:sha256:{HEX}", "docker://host:5000#a/b@"),
        (f"a/b@sha256:{HEX}", f"sha256:{HEX}", f"a/b:sha256:{HEX}", "docker://a/b@"),
        (f"a/b:sha256:{HEX}", f"sha256:{HEX}", f"a/b:sha256:{HEX}", "docker://a/b@"),
        ("/images/a.sqsh", None, "/images/a.sqsh", "/images/a.sqsh"),
    ],
)
def test_image_is_named_as_each_runtime_reads_it(
    image: str, digest: str | None, for_enroot: str, for_apptainer: str
) -> None:
    """enroot takes the digest after a colon; apptainer takes no tag next to it."""
    container = Container(image)

    assert (container.digest, container.for_enroot) == (digest, for_enroot)
    assert container.for_apptainer in (for_apptainer, f"{for_apptainer}sha256:{HEX}")
