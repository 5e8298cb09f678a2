"""Runs with checkpoints whose processes are killed at any moment, until they have ended; and full disks."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.log import keys, run_log
from harness.log.run_log import RunLog
from tests.killing import Running, has_event, kill, toy_runs, toy_tree, until

pytestmark = pytest.mark.slow

VICTIMS = ("referee", "worker", "starter", "evaluator")
ALWAYS = ("--checkpoint-every", "0")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    rules = toy_tree(tmp_path) / "toy_rules" / "toy.yaml"
    rules.write_text(rules.read_text().replace("max_seconds: 30", "max_seconds: 600"))  # the time away counts
    with toy_runs(tmp_path) as begin:
        yield begin


def log_of(tmp_path: Path) -> RunLog:
    return run_log.read(tmp_path / "out" / "result_0.txt")


def losses(log: RunLog) -> list[float]:
    return [event.value["train_loss"] for event in log.all(keys.TRACKED_STATS)]


def assert_whole(tmp_path: Path) -> RunLog:
    """The run has ended, as it would have without an interruption, and has left no checkpoint."""
    log = log_of(tmp_path)
    assert log.defects == ()
    assert losses(log) == [1, 1 / 2, 1 / 3, 1 / 4]
    assert log.one(keys.RUN_STOP).metadata["reason"] == "budget"
    assert not (tmp_path / "out" / "checkpoints").exists()
    return log


@pytest.mark.parametrize("seed", range(2))
def test_run_ends_although_it_is_killed_again_and_again(
    seed: int, start: Callable[..., Running], tmp_path: Path
) -> None:
    """Three kills at random moments after the first checkpoint, also while one is written or loaded."""
    chance = random.Random(seed)
    path = tmp_path / "out" / "result_0.txt"
    more: tuple[str, ...] = ()
    for nth in range(3):
        running = start(*ALWAYS, "pause_s=0.3", *more)
        ready = keys.TTA_CHECKPOINT_STOP if nth == 0 else keys.TTA_RESUME
        assert until(lambda: has_event(path, ready, max(nth, 1)) or running.process.poll() is not None, 120)  # noqa: B023
        time.sleep(chance.uniform(0, 2.5))
        victim = chance.choice(VICTIMS)
        if victim == "referee":
            running.process.kill()
        else:
            kill(running.find(victim))
        running.wait()
        assert until(lambda: not running.relatives(), 10)  # noqa: B023
        more = ("--resume",)
        if path.exists() and log_of(tmp_path).first(keys.TTA_END) is not None:
            break

    last = start(*ALWAYS, "pause_s=0.3", "--resume")
    assert last.wait() == 1, last.errors
    assert_whole(tmp_path)


def test_kill_while_a_checkpoint_is_written_costs_only_that_one(start: Callable[..., Running], tmp_path: Path) -> None:
    """The run goes on from the one before it."""
    unfinished = tmp_path / "out" / "checkpoints" / "run_0" / "unfinished" / "rank_00000" / "blocks"
    running = start(*ALWAYS, "pause_s=1.0")
    assert until(lambda: has_event(tmp_path / "out" / "result_0.txt", keys.TTA_CHECKPOINT_START, 2), 120)
    assert until(unfinished.exists, 10)
    running.process.kill()
    running.wait()

    assert start(*ALWAYS, "pause_s=1.0", "--resume").wait() == 1

    log = assert_whole(tmp_path)
    assert log.field(keys.TTA_RESUME, "checkpoint") == 1
    assert keys.TTA_CHECKPOINT_START in {event.key for event in log.lost}


def test_end_of_a_jobs_time_leaves_a_run_that_goes_on(start: Callable[..., Running], tmp_path: Path) -> None:
    """SIGTERM: exit status 130, a sentence that says how; without a checkpoint every so often it makes none."""
    running = start(*ALWAYS, "pause_s=0.5")
    assert until(lambda: has_event(tmp_path / "out" / "result_0.txt", keys.TTA_CHECKPOINT_STOP), 120)
    running.process.send_signal(signal.SIGTERM)
    assert running.wait() == 130
    assert "the same command with --resume goes on from checkpoint" in running.errors
    num_before = len(log_of(tmp_path).all(keys.TTA_CHECKPOINT_STOP))

    again = start("pause_s=0.5", "--resume")

    assert again.wait() == 1
    assert "run 0 goes on from checkpoint" in again.errors
    assert len(assert_whole(tmp_path).all(keys.TTA_CHECKPOINT_STOP)) == num_before


def test_full_disk_fails_the_checkpoint_and_not_the_run(start: Callable[..., Running], tmp_path: Path) -> None:
    """The log says so of each, the lines of the run of the first, and its last line of all."""
    running = start(*ALWAYS, "fault=save:disk")
    assert running.wait() == 1
    reason = "rank 0: No space left on device"
    assert running.errors.count(f"a checkpoint could not be written: {reason}; the run goes on\n") == 1
    assert running.errors.count(f"; 3 checkpoints could not be written, the last: {reason}\n") == 1

    stops = assert_whole(tmp_path).all(keys.TTA_CHECKPOINT_STOP)
    assert [event.metadata["reason"] for event in stops] == [reason] * 3


def test_seed_recipe_and_damage_are_refused(start: Callable[..., Running], tmp_path: Path) -> None:
    """Nothing is written to the log, so that it can still go on."""
    running = start(*ALWAYS, "pause_s=0.5")
    path = tmp_path / "out" / "result_0.txt"
    assert until(lambda: has_event(path, keys.TTA_CHECKPOINT_STOP), 120)
    running.process.kill()
    running.wait()
    before = path.read_bytes()
    kept = max((tmp_path / "out" / "checkpoints" / "run_0").glob("checkpoint_*/rank_00000/blocks"))
    blocks = kept.read_bytes()

    for arguments, message in (
        (("--seed", "2", "pause_s=0.5"), "the run has the seed 1, but 2 is given now"),
        (("pause_s=0.4",), "pause_s is 0.5, but 0.4 is given now"),
    ):
        refused = start(*ALWAYS, *arguments, "--resume")
        assert refused.wait() == 2
        assert message in refused.errors
    kept.write_bytes(b"9 blocks")
    refused = start(*ALWAYS, "pause_s=0.5", "--resume")
    assert refused.wait() == 2
    assert "blocks: is not what the log of the run says" in refused.errors
    assert path.read_bytes() == before
    kept.write_bytes(blocks)

    assert start(*ALWAYS, "pause_s=0.5", "--resume").wait() == 1
    assert_whole(tmp_path)


def test_run_on_two_nodes_goes_on(start: Callable[..., Running], tmp_path: Path) -> None:
    """Every rank has saved its part in the folder that they share; the log has the nodes of either time."""
    options = (*ALWAYS, "--nodes", "2", "--launcher", "local", "pause_s=0.5")
    place = tmp_path / "out" / "checkpoints" / "run_0"
    running = start(*options)
    assert until(lambda: has_event(tmp_path / "out" / "result_0.txt", keys.TTA_CHECKPOINT_STOP), 120)
    running.process.kill()
    running.wait()
    assert until(lambda: not running.relatives(), 30)
    (kept,) = [path for path in place.glob("checkpoint_*") if path.name == min(each.name for each in place.iterdir())]
    assert sorted(path.name for path in kept.iterdir()) == ["manifest.json", "rank_00000", "rank_00001"]

    again = start(*options, "--resume")
    assert again.wait() == 1, again.errors

    log = assert_whole(tmp_path)
    assert [rank["rank"] for rank in log.field(keys.TTA_RESTORED, "world")] == [0, 1]
    assert [node["node"] for node in log.field(keys.TTA_RESTORED, "launch")["nodes"]] == [0, 1]
