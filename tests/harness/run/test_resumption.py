"""Runs that are interrupted and go on from a checkpoint: the referee's part, against a scripted worker."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import Interrupted, OutputError, WorkerError
from harness.log import keys, run_log
from harness.log.run_log import RunLog
from harness.log.writer import LogWriter
from harness.metering.session import NotMetered
from harness.run import resumption as module
from harness.run.checkpoint import Checkpoints
from harness.run.plan import Outcome, Plan, WorkerLost
from harness.run.referee import Referee
from harness.run.resumption import Resumption, facts, gone_on_with, resumption_of
from harness.scoring import timeline
from harness.scoring.run_result import derive_ledger, run_result
from tests.fabricate import benchmark_rules
from tests.scripted import FakeClock, ScriptedWorker, SilentView, plan

QUALITIES = [0.2, 0.3, 0.4, 0.5, 0.6, 0.95]
RULES = benchmark_rules(permits_resume=True)
AWAY_S = 100.0


class Place:
    """One run in a folder, by as many processes as it takes; all have one clock."""

    def __init__(self, folder: Path, every_s: float | None = 0.0, rules: Any = RULES) -> None:
        self.path = folder / "result_0.txt"
        self.checkpoints = Checkpoints.of_run(folder, 0, every_s)
        self.checkpoints.clear()
        self.clock = FakeClock()
        self.plan = plan(rules)
        self.worker: Any = None
        self.nodes: Any = None
        self.view = SilentView()

    @property
    def log(self) -> RunLog:
        return run_log.read(self.path)

    def run(
        self,
        qualities: list[float],
        resumption: Resumption | None = None,
        interrupt_at_s: float = math.inf,
        **worker: Any,
    ) -> Outcome:
        self.worker = ScriptedWorker(self.clock, qualities, **worker)
        return Referee(
            plan=self.plan,
            log=LogWriter(self.path, self.clock, None if resumption is None else resumption.end),
            clock=self.clock,
            rehearsal=ScriptedWorker(self.clock, [0.1]),
            worker=self.worker,
            predictions=self.path.with_name("predictions_0.npz"),
            power=NotMetered(),
            view=self.view,
            is_interrupted=lambda: self.clock.now_ns >= interrupt_at_s * 1e9,
            drop_caches=lambda: (True, {"method": "none"}),
            judge_loaded=lambda listed: {"referee": {}, **listed},
            checkpoints=self.checkpoints,
            resumption=resumption,
            nodes=self.nodes,
        ).run()

    def interrupted_in(self, nth: int, qualities: list[float]) -> None:
        """Lose the worker in its nth block."""
        with pytest.raises(WorkerError, match="--resume goes on from checkpoint"):
            self.run(qualities, answers={("train", nth): WorkerLost("rank 0 was killed")})

    def taken_up(self) -> Resumption:
        found = resumption_of(self.log, self.checkpoints)
        assert found is not None
        return found


def curve(log: RunLog) -> list[tuple[int | None, float]]:
    return [(event.samples_count, quality) for event, quality in timeline.qualities(log)]


def test_run_goes_on_from_its_last_checkpoint_as_one_run(tmp_path: Path) -> None:
    """The curve is that of a run without interruption; what was lost is kept apart; the clock has not stopped."""
    whole = Place(tmp_path / "whole")
    assert whole.run(QUALITIES).is_reached
    place = Place(tmp_path / "cut")
    place.interrupted_in(3, QUALITIES[:3])
    before = place.log
    place.clock.advance(AWAY_S)

    outcome = place.run(QUALITIES[3:], place.taken_up())

    log = place.log
    assert outcome.is_reached
    assert log.defects == ()
    assert curve(log) == curve(whole.log)
    assert [event.key for event in log.lost] == ["block_start", "tta_interrupted"]
    assert log.value(keys.TTA_RESUME)["away_s"] == AWAY_S
    assert log.value(keys.TTA_RESUME)["checkpoint"] == 3
    assert [log.value(keys.TTA_RESUME)[name] for name in ("run_id", "seed")] == ["cd" * 16, 7]
    assert [command["do"] for command in place.worker.asked[:4]] == ["open", "prepare", "start", "load"]
    assert before.value(keys.TTA_INTERRUPTED) == {
        "reason": "crashed",
        "evidence": "rank 0 was killed",
        "checkpoint": 3,
    }
    assert log.field(keys.TTA_END, "num_events") == sum(log.counts.values())
    assert not place.checkpoints.folder.exists()
    assert outcome.run_s is not None
    assert outcome.run_s > AWAY_S


class TwoNodes:
    """Nodes of which the log says something, and on which nothing is left."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.num_cleaned = 0

    def facts(self) -> dict[str, Any]:
        return {"port": self.port}

    def clean(self) -> dict[str, Any]:
        self.num_cleaned += 1
        return {"left": {}, "ahead_s": {}}


def test_log_has_the_nodes_of_either_time(tmp_path: Path) -> None:
    """Those of the first are in `tta_launch`, which a run has once."""
    place = Place(tmp_path)
    place.nodes = TwoNodes(1)
    place.interrupted_in(2, QUALITIES[:2])
    place.nodes = TwoNodes(2)

    assert place.run(QUALITIES[2:], place.taken_up()).is_reached

    assert place.log.one(keys.TTA_LAUNCH).value == {"port": 1}
    assert place.log.one(keys.TTA_RESTORED).value["launch"] == {"port": 2}


def test_run_that_stays_open_is_over_for_view_and_nodes(tmp_path: Path) -> None:
    """The panel leaves the terminal, and nothing is left on a node; the log has no line that says so."""
    place = Place(tmp_path)
    place.nodes = TwoNodes(1)
    place.interrupted_in(2, QUALITIES[:2])

    outcome = place.view.outcome
    assert (outcome.status, outcome.reason, outcome.evidence) == ("unfinished", "crashed", "rank 0 was killed")
    assert (outcome.samples, outcome.quality, outcome.is_reached) == (2000, QUALITIES[1], False)
    assert place.nodes.num_cleaned == 1
    assert place.log.events[-1].key == keys.TTA_INTERRUPTED


def test_ledger_has_the_time_away_and_the_way_back(tmp_path: Path) -> None:
    """A second worker takes 1.2 s to its place; 100 s away; the phases sum up, and a judge finds the same."""
    place = Place(tmp_path)
    place.interrupted_in(2, QUALITIES[:2])
    place.clock.advance(AWAY_S)
    place.run(QUALITIES[2:], place.taken_up(), seconds={"prepare": 1.0, "start": 0.2, "train": 2.0, "evaluate": 0.5})

    log = place.log
    ledger = log.value(keys.TTA_LEDGER)
    assert ledger["checkpoint_s"] == pytest.approx(1.2)
    assert ledger["interrupted_s"] == pytest.approx(AWAY_S + 2.0)  # and the block that was lost
    assert ledger["train_s"] == pytest.approx(len(QUALITIES) * 1.9)
    assert ledger["other_s"] == pytest.approx(0.0)
    assert {f"{phase}_s": pytest.approx(seconds) for phase, seconds in derive_ledger(log).items()} == {
        name: seconds for name, seconds in ledger.items() if name != "run_s"
    }
    result = run_result(log, RULES)
    assert (result.num_resumed, result.away_s) == (1, AWAY_S)
    assert result.fixed_s == pytest.approx(0.2 + 1.2 + AWAY_S + 2.0)


def test_interrupted_twice_before_another_checkpoint(tmp_path: Path) -> None:
    """It goes on from the same one; no number is used again; both absences are stated."""
    place = Place(tmp_path)
    place.interrupted_in(2, QUALITIES[:2])
    place.clock.advance(AWAY_S)
    with pytest.raises(WorkerError, match="goes on from checkpoint 2"):
        place.run([], place.taken_up(), answers={("prepare", 0): WorkerLost("rank 0 was killed again")})
    place.clock.advance(AWAY_S)

    assert place.run(QUALITIES[2:], place.taken_up()).is_reached

    log = place.log
    assert curve(log) == [(1000 * (n + 1), quality) for n, quality in enumerate(QUALITIES)]
    result = run_result(log, RULES)
    assert (result.num_resumed, result.away_s) == (2, 2 * AWAY_S)
    numbers = [event.metadata["number"] for event in log.all(keys.TTA_CHECKPOINT_STOP)]
    assert numbers == [1, 2, 3, 4, 5]


def test_interrupt_leaves_a_run_with_a_checkpoint_open(tmp_path: Path) -> None:
    """Without one, its log is closed as aborted, as ever."""
    place = Place(tmp_path)
    with pytest.raises(Interrupted, match="interrupted by a signal; the same command with --resume goes on from"):
        place.run(QUALITIES, interrupt_at_s=9.0)
    assert place.log.first(keys.RUN_STOP) is None
    assert place.run(QUALITIES[len(curve(place.log)) :], place.taken_up()).is_reached

    never = Place(tmp_path / "never", every_s=1000.0)
    with pytest.raises(Interrupted, match=r"interrupted by a signal$"):
        never.run(QUALITIES, interrupt_at_s=9.0)
    assert never.log.one(keys.RUN_STOP).metadata["reason"] == "interrupted"
    assert never.log.first(keys.TTA_CHECKPOINT_START) is None


def test_checkpoints_are_made_when_it_is_time(tmp_path: Path) -> None:
    """A block and its evaluation take 2.5 s; every 4 s there is one after every second of them."""
    place = Place(tmp_path, every_s=4.0)

    place.run(QUALITIES)

    assert [event.samples_count for event in place.log.all(keys.TTA_CHECKPOINT_STOP)] == [2000, 4000]


def test_checkpoint_that_fails_does_not_end_the_run(tmp_path: Path) -> None:
    """A rank without space, and a folder that is gone; the one before them counts."""
    place = Place(tmp_path)

    def lost() -> dict[str, Any]:
        place.checkpoints.folder.rename(tmp_path / "moved")
        return {"ok": True, "files": {}, "reason": None}

    answers = {("save", 1): {"ok": True, "files": {}, "reason": "rank 3: No space left on device"}, ("save", 2): lost}
    outcome = place.run(QUALITIES, answers=answers)
    assert outcome.is_reached
    assert outcome.failed_checkpoints[:2] == ("rank 3: No space left on device", "No such file or directory")
    assert place.view.num_failed == len(outcome.failed_checkpoints) >= 2

    stops = place.log.all(keys.TTA_CHECKPOINT_STOP)
    assert [event.metadata["reason"] for event in stops[:3]] == [
        None,
        "rank 3: No space left on device",
        "No such file or directory",
    ]
    assert [event.metadata["digest"] is None for event in stops[:3]] == [False, True, True]


def test_failed_checkpoints_are_said_to_who_resumes_the_run(tmp_path: Path) -> None:
    """With the checkpoint that counts; the run that goes on knows of them, those after that checkpoint included."""
    place = Place(tmp_path)
    full = {"ok": True, "files": {}, "reason": "rank 0: No space left on device"}
    answers = {("save", 0): full, ("save", 2): full, ("train", 3): WorkerLost("rank 0 was killed")}

    with pytest.raises(
        WorkerError,
        match=r"killed; the same command with --resume goes on from checkpoint 2; 2 checkpoints could not be written, "
        r"the last: rank 0: No space left on device$",
    ):
        place.run(QUALITIES, answers=answers)

    assert place.run(QUALITIES[2:], place.taken_up()).failed_checkpoints == (full["reason"],) * 2


def test_only_the_last_complete_checkpoint_is_kept(tmp_path: Path) -> None:
    """And the one before it, until the next begins; what a crash left of another is deleted."""
    place = Place(tmp_path)
    place.interrupted_in(4, QUALITIES[:4])
    (place.checkpoints.folder / "unfinished" / "rank_00000").mkdir(parents=True)
    (place.checkpoints.folder / "note.txt").write_text("not tta's")

    assert place.checkpoints.begin(4) == place.checkpoints.folder / "unfinished"

    assert sorted(path.name for path in place.checkpoints.folder.iterdir()) == ["checkpoint_4", "note.txt"]


def test_time_away_beyond_the_budget_ends_the_run(tmp_path: Path) -> None:
    """The clock has not stopped: 600 s are spent, and no worker is started."""
    place = Place(tmp_path)
    place.interrupted_in(2, QUALITIES[:2])
    place.clock.advance(600.0)

    outcome = place.run(QUALITIES[2:], place.taken_up())

    assert (outcome.reason, outcome.run_s) == ("budget", pytest.approx(607.2))
    assert "the time away counts" in outcome.evidence
    assert place.worker.asked == []
    assert place.log.value(keys.TTA_LOADED)["worker"] is None


def test_worker_of_another_origin_is_refused_and_the_run_stays_open(tmp_path: Path) -> None:
    """The seed gives other weights there: another machine or recipe."""
    place = Place(tmp_path)
    place.interrupted_in(2, QUALITIES[:2])
    other = {"ok": True, "numerics": {}, "weights_digest": "0" * 64}

    with pytest.raises(WorkerError, match=r"draws other initial weights .* goes on from checkpoint 2"):
        place.run(QUALITIES[2:], place.taken_up(), answers={("prepare", 0): other})

    assert place.log.first(keys.RUN_STOP) is None


def test_run_that_ends_before_an_evaluation_keeps_no_predictions(tmp_path: Path) -> None:
    """The evaluator of this process has none."""
    place = Place(tmp_path)
    place.interrupted_in(2, QUALITIES[:2])

    outcome = place.run([], place.taken_up(), answers={("train", 0): {"ok": False, "kind": "oom", "message": "full"}})

    assert outcome.reason == "oom"
    assert place.log.value(keys.TTA_PREDICTIONS) == {"file": None, "num_bytes": 0}


def test_what_cannot_go_on(tmp_path: Path) -> None:
    """No checkpoint in the log, none on the disk, or a run that is over but for its last lines."""
    place = Place(tmp_path / "a", every_s=None)
    with pytest.raises(Interrupted):
        place.run(QUALITIES, interrupt_at_s=9.0)
    assert resumption_of(place.log, place.checkpoints) is None

    place = Place(tmp_path / "b")
    place.interrupted_in(2, QUALITIES[:2])
    place.checkpoints.discard()
    assert resumption_of(place.log, place.checkpoints) is None

    place = Place(tmp_path / "c")
    place.run(QUALITIES)
    assert resumption_of(place.log, place.checkpoints) is None


def test_line_that_was_being_written_is_cut_off_and_stated(tmp_path: Path) -> None:
    """As a loss of power leaves it, with zeros; a damaged line before it is refused."""
    place = Place(tmp_path)
    place.interrupted_in(2, QUALITIES[:2])
    whole = place.path.read_bytes()
    place.path.write_bytes(whole.replace(b'"train_loss": 1.0', b'"train_loss": 0.5'))
    with pytest.raises(OutputError, match=r"result_0\.txt:\d+: prev is not .*; the run cannot go on from it"):
        resumption_of(place.log, place.checkpoints)
    place.path.write_bytes(whole + b':::MLLOG {"namesp' + bytes(3))

    assert place.run(QUALITIES[2:], place.taken_up()).is_reached

    assert place.log.defects == ()
    assert place.log.value(keys.TTA_RESUME)["cut_bytes"] == 20


@pytest.mark.parametrize("name", ["manifest.json", "rank_00000/session.pt"])
@pytest.mark.parametrize("is_gone", [True, False])
def test_checkpoint_that_is_not_the_one_of_the_log_is_refused(tmp_path: Path, name: str, is_gone: bool) -> None:
    """Changed, damaged, or incomplete; the message says what can be done."""
    place = Place(tmp_path)
    place.interrupted_in(2, QUALITIES[:2])
    file = place.checkpoints.place(2) / name
    file.write_bytes(b"{}")
    if is_gone:
        file.unlink()

    with pytest.raises(OutputError, match=rf"{Path(name).name}.*; delete .*run_0 to begin the run again"):
        resumption_of(place.log, place.checkpoints)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"run_id": "ef" * 16}, "run_id"),
        ({"rules": benchmark_rules(permits_resume=True, target=0.8)}, "terms_digest"),
        ({"precision": "bf16"}, "config_digest"),
        ({"data": {"digest": "0" * 64}}, "data_digest"),
    ],
)
def test_checkpoint_of_another_run_is_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    """Its manifest says of which run, seed, recipe, code and data it is."""
    place = Place(tmp_path)
    place.plan = replace(place.plan, **changes)
    place.interrupted_in(2, QUALITIES[:2])
    found = place.taken_up()
    log = replace(found.log, _by_key={**found.log._by_key, keys.TTA_FORMAT: (with_run_id(found.log, "cd" * 16),)})

    with pytest.raises(OutputError, match=rf"checkpoint_2: {named} is .*; the run cannot go on from it"):
        gone_on_with(replace(found, log=log), plan(RULES), has_seed=False)


def with_run_id(log: RunLog, run_id: str) -> Any:
    event = log.one(keys.TTA_FORMAT)
    return type(event)(**{name: getattr(event, name) for name in event.__struct_fields__} | {
        "value": {**event.value, "run_id": run_id}
    })  # fmt: skip


def test_plan_takes_over_what_the_run_began_with(tmp_path: Path) -> None:
    """Seed, id and attempt; a seed that is requested must be the same."""
    place = Place(tmp_path)
    place.plan = replace(place.plan, attempt=3)
    place.interrupted_in(2, QUALITIES[:2])
    found = place.taken_up()
    other: Plan = replace(plan(RULES), seed=8, run_id="00" * 16)

    taken = gone_on_with(found, other, has_seed=False)

    assert (taken.seed, taken.run_id, taken.attempt) == (7, "cd" * 16, 3)
    assert facts(taken) == found.manifest["run"]
    with pytest.raises(OutputError, match="the run has the seed 7, but 8 is given now"):
        gone_on_with(found, other, has_seed=True)


def test_clock_of_the_same_boot_goes_on_counting(tmp_path: Path) -> None:
    """The monotonic clock of a machine does not depend on the process that reads it."""
    place = Place(tmp_path)
    real = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    place.clock.origin_ns = real - 3_600_000_000_000
    place.interrupted_in(2, QUALITIES[:2])

    clock = place.taken_up().clock()

    assert clock.origin_ns == place.clock.origin_ns
    assert 3600 <= clock.elapsed_ns() / 1e9 < 3700
    assert clock.time_ms(1_000_000) == place.clock.time_ms(1_000_000)


def test_clock_after_a_restart_of_the_machine_counts_by_the_wall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time stamps and elapsed time stay together; a wall clock before the last line is refused."""
    place = Place(tmp_path)
    place.interrupted_in(2, QUALITIES[:2])
    found = place.taken_up()
    monkeypatch.setattr(module, "boot_id", lambda: "another")
    now_ms = time.time_ns() // 1_000_000

    clock = found.clock()
    record = found.record(clock)

    assert clock.time_ms(clock.elapsed_ns()) == pytest.approx(now_ms, abs=1000)
    assert clock.origin_ns + clock.elapsed_ns() == pytest.approx(
        time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), abs=1e9
    )
    assert (record["clock"], record["boot_id"]) == ("wall", "another")
    monkeypatch.setattr(time, "time_ns", lambda: 1_763_683_200_000_000_000)
    with pytest.raises(OutputError, match=r"the system's clock is 9.9 s before its last line; set it"):
        found.clock()


def test_second_interruption_uses_the_clock_of_the_process_before_it(tmp_path: Path) -> None:
    """That process may have run after a restart, or on another machine."""
    place = Place(tmp_path)
    place.interrupted_in(2, QUALITIES[:2])
    place.clock.origin_ns = 77
    with pytest.raises(WorkerError):
        place.run([], place.taken_up(), answers={("prepare", 0): WorkerLost("again")})

    assert place.taken_up().clock().origin_ns == 77


def test_folder_that_cannot_be_emptied_is_one_sentence(tmp_path: Path) -> None:
    """A file is in its place."""
    (tmp_path / "checkpoints").touch()

    with pytest.raises(OutputError, match=r"run_0: cannot be made empty: Not a directory"):
        Checkpoints.of_run(tmp_path, 0, None).clear()


def test_checkpoints_of_another_run_stay(tmp_path: Path) -> None:
    """What is over is deleted; a new run begins with an empty folder."""
    first, second = (Checkpoints.of_run(tmp_path, index, None) for index in (0, 1))
    for checkpoints in (first, second):
        checkpoints.clear()
        (checkpoints.folder / "left").touch()

    first.discard()
    second.clear()

    assert [path.name for path in tmp_path.rglob("*")] == ["checkpoints", "run_1"]
    assert json.dumps(facts(plan(RULES)))
