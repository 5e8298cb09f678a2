"""The loaders in real runs: their processes are confined with the rank, see the data from `start` on, end with it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.log import run_log
from tests.killing import ROOT, Running, toy_runs, toy_tree, until

pytestmark = pytest.mark.slow


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts `tta run` of the streamed workload in a tree of its own."""
    tree = toy_tree(tmp_path / "tree")
    shutil.copy(Path(__file__).with_name("streamed_workload.py"), tree / "workloads" / "toy" / "__init__.py")
    shutil.copytree(ROOT / "workloads" / "streaming", tree / "workloads" / "streaming")
    with toy_runs(tree) as begin:
        yield begin


@pytest.mark.parametrize("num_devices", [1, 2])
@pytest.mark.parametrize("means", ["bubblewrap", "unshare", "landlock"])
def test_loaders_work_where_a_run_is_confined(
    means: str, num_devices: int, start: Callable[..., Running], tmp_path: Path
) -> None:
    """No network, system calls filtered, shared memory of its own, data covered until the clock starts.

    Every rank gets its share of every batch from two processes; the evaluation covers the test set exactly.
    """
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in {"bubblewrap": ["bwrap"], "unshare": ["unshare"], "landlock": []}[means]:
        if (program := shutil.which(name)) is None:
            pytest.skip(f"{name} is not installed")
        (programs / name).symlink_to(program)

    running = start("--devices", str(num_devices), environment={"PATH": f"{programs}"})
    assert running.wait() == 0, running.errors

    log = run_log.read(running.folder / "out" / "result_0.txt")
    isolation = log.value("tta_isolation")
    if isolation["means"] != means:
        pytest.skip(str(isolation["reasons"].get(means)))
    assert [event.value for event in log.all("eval_accuracy")] == [1.0]
    assert log.value("tta_data_touched_early") == []
    assert isolation["data"] == ("from the beginning" if means == "landlock" else "at start")
    assert until(lambda: not running.relatives(), 60), running.relatives()


def test_killed_worker_of_a_loader_is_a_crash_that_leaves_no_process(start: Callable[..., Running]) -> None:
    """The log has what torch says of it."""
    running = start("fault=killed")
    assert running.wait() == 1, running.errors

    stop = run_log.read(running.folder / "out" / "result_0.txt").one("run_stop")
    assert stop.metadata["reason"] == "crashed"
    # Whichever the rank sees first: the signal of its child, or the end of the connection to it.
    assert any(text in str(stop.metadata) for text in ("DataLoader worker", "ConnectionResetError", "EOFError"))
    assert until(lambda: not running.relatives(), 60), running.relatives()
