"""A reproduction that is interrupted, and goes on by the same command to the verdict that it has without."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests import reproduction_kills
from tests.killing import Running, has_event, until

pytest.importorskip("torch")


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [pytest.param("reproduced", marks=pytest.mark.release), "not reproduced"])
def test_interrupted_at_random_moments_it_comes_to_its_verdict(tmp_path: Path, wanted: str) -> None:
    """`python -m tests.reproduction_kills 20` does it twenty times."""
    tree = reproduction_kills.learning_tree(tmp_path / "tree")
    claim = reproduction_kills.claim(tree)
    if wanted != "reproduced":
        reproduction_kills.cut(claim)

    reproduction_kills.attempt(tree, "again", random.Random(5), wanted)


@pytest.mark.slow
def test_run_that_a_signal_ended_and_a_log_that_was_deleted_are_made_again(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a run; then a log is lost and another cut off. None counts as a run that missed."""
    tree = reproduction_kills.learning_tree(tmp_path / "tree")
    reproduction_kills.claim(tree)
    log = tree / "again" / "result_1.txt"
    running = Running([*reproduction_kills.command("again")], tree)
    try:
        assert until(
            lambda: has_event(log, "run_start") or running.process.poll() is not None, reproduction_kills.LIMIT_S
        )
        running.process.send_signal(signal.SIGINT)
        assert running.wait(reproduction_kills.LIMIT_S) == 130
    finally:
        running.end()
    (first,) = reproduction_kills.complete(tree / "again")
    (tree / "again" / first).unlink()
    (tree / "again" / "result_2.txt").write_text(":::MLLOG {")

    reproduction_kills.attempt(tree, "again", random.Random(0), "reproduced", most=0)

    names = sorted(path.name.partition(".")[0] for path in (tree / "again" / "unfinished").glob("*.txt"))
    assert names == ["result_1", "result_2"]
