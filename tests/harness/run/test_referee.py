"""The referee against a scripted worker: what it writes, when it stops, and how it ends."""

from __future__ import annotations

import contextlib
import gc
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DataError, Interrupted, UsageError
from harness.log import run_log
from harness.log.run_log import RunLog
from harness.log.writer import LogWriter
from harness.metering.session import NotMetered, Power
from harness.run.plan import Outcome, WorkerLost
from harness.run.referee import Referee
from harness.submission import module as open_module
from tests.fabricate import (
    MODULE,
    PREDICTIONS_DIGEST,
    benchmark_rules,
    equivalence_record,
    events,
    find,
    weights_digest,
)
from tests.scripted import FakeClock, ScriptedPower, ScriptedWorker, SilentView, plan


def play(
    path: Path,
    qualities: list[float],
    rules: Any = None,
    interrupt_after_s: float = math.inf,
    power: Power | None = None,
    clock: FakeClock | None = None,
    full_curve: bool = False,
    num_devices: int = 1,
    job: Any = None,
    rehearsal: ScriptedWorker | None = None,
    weights: tuple[Path, Path] | None = None,
    drop_caches: Callable[[], tuple[bool, dict[str, Any]]] = lambda: (True, {"method": "none"}),
    **worker: Any,
) -> tuple[Outcome, RunLog, ScriptedWorker]:
    """Run one plan against a script; return outcome, log and worker."""
    clock = clock or FakeClock()
    script = ScriptedWorker(clock, qualities, **worker)
    referee = Referee(
        plan=plan(rules, full_curve=full_curve, num_devices=num_devices, job=job),
        log=LogWriter(path, clock),
        clock=clock,
        rehearsal=rehearsal or ScriptedWorker(clock, [0.1]),
        worker=script,
        predictions=path.with_name("predictions_0.npz"),
        power=power or NotMetered(),
        view=SilentView(),
        is_interrupted=lambda: clock.now_ns >= interrupt_after_s * 1e9,
        drop_caches=drop_caches,
        judge_loaded=lambda listed: {"referee": {}, **listed},
        weights=weights,
    )
    try:
        outcome = referee.run()
    finally:
        assert script.num_stops > 0, "a worker was left running"
    return outcome, run_log.read(path), script


def stop_of(log: RunLog) -> dict[str, Any]:
    return dict(log.one("run_stop").metadata)


def test_target_reached_at_third_evaluation_ends_the_run_there(tmp_path: Path) -> None:
    """The run stops at the first evaluation that reaches the target, and its time ends there."""
    outcome, log, worker = play(tmp_path / "log", [0.5, 0.8, 0.9])

    assert outcome.is_reached
    assert [event.value for event in log.all("eval_accuracy")] == [0.5, 0.8, 0.9]
    assert log.seconds(log.one("run_start"), log.one("run_stop")) == pytest.approx(0.2 + 3 * 2.5)
    assert stop_of(log)["status"] == "success"
    assert worker.asked[-1] == {"do": "close"}


def test_run_leaves_nothing_for_the_collector_of_cycles(tmp_path: Path) -> None:
    """What a run needed is freed when it is over, not at some later run of the same command."""
    play(tmp_path / "before", [0.9])  # loads what is loaded once
    gc.collect()
    gc.disable()
    try:
        play(tmp_path / "log", [0.5, 0.9])
        num_unreachable = gc.collect()
    finally:
        gc.enable()

    assert num_unreachable == 0


def test_equal_to_the_target_counts_and_just_below_does_not(tmp_path: Path) -> None:
    """A value equal to the target reaches it."""
    assert play(tmp_path / "a", [0.9])[0].is_reached
    assert not play(tmp_path / "b", [math.nextafter(0.9, 0)])[0].is_reached


def test_log_has_the_events_that_the_fixtures_have(tmp_path: Path) -> None:
    """The fabricated logs of other tests have the keys of the referee's log, in its order."""
    _, log, _ = play(tmp_path / "log", [0.5, 0.8, 0.95])
    steps = events(qualities=(0.5, 0.8, 0.95), mono_ns=5_000_000_000_000)

    assert [event.key for event in log.events] == [step.key for step in steps]
    assert log.value("tta_clock") == find(steps, "tta_clock").value == {"mono_ns": 5_000_000_000_000}
    assert log.defects == ()


def test_job_of_a_run_on_one_node_follows_the_clock(tmp_path: Path) -> None:
    """Nothing else is said of nodes."""
    _, log, _ = play(tmp_path / "log", [0.95], job={"launcher": {"kind": "slurm", "job": "17"}})

    keys = [event.key for event in log.events]
    assert keys[keys.index("tta_clock") + 1] == "tta_launch"
    assert log.field("tta_launch", "launcher") == {"kind": "slurm", "job": "17"}
    assert "tta_nodes_clean" not in keys


@pytest.mark.parametrize(
    ("batch_size", "due"),
    [(100, [1000, 2000, 3000]), (300, [1200, 2100, 3000]), (700, [1400, 2100, 3500]), (2500, [2500, 5000, 7500])],
)
def test_evaluations_fall_on_the_first_whole_batch_past_the_cadence(
    tmp_path: Path, batch_size: int, due: list[int]
) -> None:
    """With any batch size, evaluation k is at the first edge at or past the next multiple of the cadence."""
    _, log, _ = play(tmp_path / "log", [0.1, 0.2, 0.95], batch_size=batch_size)

    assert [event.samples_count for event in log.all("eval_accuracy")] == due


@pytest.mark.parametrize(
    ("limit", "samples", "evidence"),
    [
        ({"max_samples": 3000}, 3000, "max_samples is 3,000"),
        ({"max_seconds": 5.2}, 2000, "max_seconds is 5.2"),
    ],
)
def test_spent_budget_ends_the_run_as_aborted(
    tmp_path: Path, limit: dict[str, Any], samples: int, evidence: str
) -> None:
    """At exactly max_samples, or the first edge at max_seconds, no other block begins; the target has priority."""
    rules = benchmark_rules(**limit)
    outcome, log, _ = play(tmp_path / "log", [0.1], rules=rules)

    assert (outcome.status, outcome.reason, outcome.samples) == ("aborted", "budget", samples)
    assert evidence in stop_of(log)["evidence"]
    assert len(log.all("block_start")) == samples // 1000
    assert play(tmp_path / "reached", [0.1] * (samples // 1000 - 1) + [0.9], rules=rules)[0].is_reached


def test_confirmation_needs_the_next_evaluation_too(tmp_path: Path) -> None:
    """With one confirmation, a single hit does not count, and the clock stops at the second of two in a row."""
    rules = benchmark_rules(confirm_evaluations=1)

    outcome, _, _ = play(tmp_path / "log", [0.95, 0.5, 0.91, 0.92], rules=rules)

    assert outcome.is_reached
    assert outcome.samples == 4000


def test_full_curve_goes_on_past_the_target_and_is_no_success(tmp_path: Path) -> None:
    """A reference run uses its whole budget and can never be mistaken for a result."""
    outcome, log, _ = play(tmp_path / "log", [0.95], rules=benchmark_rules(max_samples=3000), full_curve=True)

    assert (outcome.status, outcome.reason) == ("aborted", "full_curve")
    assert len(log.all("eval_accuracy")) == 3
    assert log.field("tta_config", "full_curve") is True
    assert log.value("tta_predictions") == {"file": None, "num_bytes": 0}


def test_worker_that_does_not_report_its_numerics_is_refused(tmp_path: Path) -> None:
    """The run ends before its clock starts."""
    outcome, log, _ = play(tmp_path / "log", [0.95], answers={("prepare", 0): {"ok": True}})

    assert (outcome.reason, outcome.evidence) == ("crashed", "the worker did not report its numerics")
    assert log.first("run_start") is None


def test_run_finds_no_data_in_memory_that_the_rehearsal_has_read(tmp_path: Path) -> None:
    """The files are dropped again when it is over, before the worker of the run exists."""
    clock = FakeClock()
    rehearsal = ScriptedWorker(clock, [0.1])
    num_asked: list[int] = []

    def drop() -> tuple[bool, dict[str, Any]]:
        num_asked.append(len(rehearsal.asked))
        return True, {"method": "none"}

    play(tmp_path / "log", [0.95], clock=clock, rehearsal=rehearsal, drop_caches=drop)

    assert num_asked == [0, len(rehearsal.asked)]


def test_rehearsal_is_over_before_the_run_starts_and_trains_nothing(tmp_path: Path) -> None:
    """The quality without training is logged; the time that it takes is not on the clock."""
    clock = FakeClock()
    rehearsal = ScriptedWorker(clock, [0.1])
    _, log, worker = play(tmp_path / "log", [0.95], clock=clock, rehearsal=rehearsal)

    drawn = weights_digest(log.value("seed"))
    initial = {"weights_digest": drawn, "quality": 0.1, "num_examples": 500}
    assert log.value("tta_initial") == initial
    assert log.one("run_start").metadata["weights_digest"] == drawn
    assert [command["do"] for command in rehearsal.asked] == ["open", "prepare", "start", "evaluate"]
    assert rehearsal.num_stops > 0
    assert log.one("tta_initial").elapsed_ns == 1.7e9
    assert log.seconds(log.one("run_start"), log.one("run_stop")) == pytest.approx(0.2 + 2.5)
    assert "keep" in [command["do"] for command in worker.asked]


def reimplemented(path: Path, quantities: Any) -> tuple[Referee, ScriptedWorker]:
    """A closed run with a module, of which the rehearsal reports these quantities."""
    clock = FakeClock()
    rehearsal = ScriptedWorker(clock, [0.1], answers={("compare", 0): {"ok": True, "quantities": quantities}})
    module = open_module.Module("fast.py", "ab" * 32, ("build_model",))
    referee = Referee(
        plan=plan(benchmark_rules(equivalence_steps=99), module=module, module_path=Path("/code/fast.py")),
        log=LogWriter(path, clock),
        clock=clock,
        rehearsal=rehearsal,
        worker=ScriptedWorker(clock, [0.95]),
        predictions=path.with_name("predictions_0.npz"),
        power=NotMetered(),
        view=SilentView(),
        is_interrupted=lambda: False,
        drop_caches=lambda: (True, {"method": "none"}),
        judge_loaded=lambda listed: {"referee": {}, **listed},
    )
    return referee, rehearsal


def test_reimplementation_is_compared_before_anything_else_on_seeds_drawn_then(tmp_path: Path) -> None:
    """As many steps as the rules ask, rounded up to the same number from each seed; other runs have other seeds."""
    quantities = equivalence_record(MODULE, 7)["quantities"]
    seeds = []
    for name in ("first", "second"):
        referee, rehearsal = reimplemented(tmp_path / name, quantities)

        assert referee.run().is_reached

        asked = rehearsal.asked[0]
        found = run_log.read(tmp_path / name).value("tta_equivalent")
        assert (asked["do"], asked["steps_per_seed"], asked["module"]["path"]) == ("compare", 50, "/code/fast.py")
        assert (found["module"], found["sha256"], found["steps"]) == ("fast.py", "ab" * 32, 100)
        assert found["seeds"] == asked["seeds"]
        assert found["is_equivalent"]
        seeds += found["seeds"]
    assert len(set(seeds)) == 4


def test_reimplementation_that_is_not_equivalent_starts_no_run(tmp_path: Path) -> None:
    """The log has the numbers, and why."""
    quantities = equivalence_record(MODULE, 7)["quantities"]
    quantities["loss"] |= {"difference": 0.5, "step": 3, "seed": 9}
    referee, _ = reimplemented(tmp_path / "log", quantities)

    with pytest.raises(
        UsageError, match=r"^fast.py is not equivalent: at step 3 of the seed 9 the loss differs by 0.5 of"
    ):
        referee.run()

    log = run_log.read(tmp_path / "log")
    assert log.field("tta_equivalent", "is_equivalent") is False
    assert stop_of(log)["evidence"].startswith("fast.py is not equivalent")
    assert log.first("run_start") is None


@pytest.mark.parametrize("quantities", [None, {}, [1], {"loss": {"difference": math.nan}}])
def test_worker_that_does_not_report_the_differences_is_refused(tmp_path: Path, quantities: Any) -> None:
    """Its answer is foreign input; nothing is logged of it."""
    referee, _ = reimplemented(tmp_path / "log", quantities)

    outcome = referee.run()

    assert outcome.evidence.startswith("the worker did not report how far the module is from the reference: quantities")
    assert run_log.read(tmp_path / "log").first("tta_equivalent") is None


@pytest.mark.parametrize(
    ("command", "answer", "evidence"),
    [
        ("prepare", {"ok": False, "kind": "crashed", "message": "boom"}, "boom"),
        ("prepare", {"ok": True}, "the worker did not report the digest of its initial weights"),
        ("prepare", {"ok": True, "weights_digest": 5}, "the worker did not report the digest of its initial weights"),
        ("evaluate", {"ok": True}, "the answer of the worker has no number value"),
    ],
)
def test_rehearsal_that_fails_ends_the_run_before_its_clock(
    tmp_path: Path, command: str, answer: dict[str, Any], evidence: str
) -> None:
    """What fails without a clock would fail with it; the second worker is not started."""
    clock = FakeClock()
    rehearsal = ScriptedWorker(clock, [0.1], answers={(command, 0): answer})
    outcome, log, worker = play(tmp_path / "log", [0.95], clock=clock, rehearsal=rehearsal)

    assert (outcome.status, outcome.evidence, outcome.run_s) == ("aborted", evidence, None)
    assert log.first("tta_initial") is log.first("run_start") is None
    assert worker.asked == []


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ({"ok": True, "is_kept": True, "num_bytes": 1234}, {"file": "predictions_0.npz", "num_bytes": 1234}),
        ({"ok": True, "is_kept": False, "num_bytes": 10**9}, {"file": None, "num_bytes": 10**9}),
        (WorkerLost("gone"), {"file": None, "num_bytes": 0}),
    ],
)
def test_predictions_that_were_kept_are_named_after_the_run(tmp_path: Path, answer: Any, value: Any) -> None:
    """The digest stands with the quality; whether the file is there does not change the outcome."""
    outcome, log, _ = play(tmp_path / "log", [0.95], answers={("keep", 0): answer})

    assert outcome.is_reached
    assert log.value("tta_predictions") == value
    assert log.one("eval_accuracy").metadata["predictions"] == PREDICTIONS_DIGEST


def places_of(folder: Path) -> tuple[Path, Path]:
    return folder / "weights_0.safetensors", folder / "apart" / "weights_0.safetensors"


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (None, {"file": "weights_0.safetensors", "num_bytes": 4321, "sha256": "5e" * 32, "reason": None}),
        (
            {"ok": True, "is_kept": False, "num_bytes": 10**9, "sha256": "5e" * 32},
            {"file": None, "num_bytes": 10**9, "sha256": "5e" * 32, "reason": None},
        ),
        (
            {"ok": False, "message": "no space left"},
            {"file": None, "num_bytes": 0, "sha256": None, "reason": "no space left"},
        ),
        (WorkerLost("gone"), {"file": None, "num_bytes": 0, "sha256": None, "reason": "gone"}),
    ],
    ids=["kept", "too large", "not written", "lost"],
)
def test_weights_are_kept_after_the_clock_has_stopped(tmp_path: Path, answer: Any, value: Any) -> None:
    """On request, of a worker that reached its target; whether they could be does not change the outcome."""
    answers = {} if answer is None else {("weights", 0): answer}
    outcome, log, worker = play(tmp_path / "log", [0.95], weights=places_of(tmp_path), answers=answers)

    assert outcome.is_reached
    assert log.value("tta_weights") == value
    assert [event.key for event in log.events][-3:] == ["tta_loaded", "tta_weights", "tta_end"]
    place, apart = places_of(tmp_path)
    assert {"do": "weights", "path": str(place), "apart": str(apart)} in worker.asked


def test_weights_of_a_run_that_has_no_worker_any_more_are_not_kept(tmp_path: Path) -> None:
    """The log says so; without the request it says nothing."""
    answers = {("train", 1): WorkerLost("gone")}
    _, log, worker = play(tmp_path / "log", [0.5], weights=places_of(tmp_path), answers=answers)
    _, other, _ = play(tmp_path / "other", [0.95])

    reason = "the worker had ended before it could be asked"
    assert log.value("tta_weights") == {"file": None, "num_bytes": 0, "sha256": None, "reason": reason}
    assert "weights" not in [command["do"] for command in worker.asked]
    assert other.first("tta_weights") is None


def test_signature_of_a_metric_is_logged_beside_its_value(tmp_path: Path) -> None:
    """As the library reports it, on one line."""
    answer = {"ok": True, "value": 0.95, "num_examples": 500}
    _, log, _ = play(tmp_path / "log", [0.1], answers={("evaluate", 0): {**answer, "signature": "tok:13a\n:::MLLOG"}})
    _, plain, _ = play(tmp_path / "plain", [0.1], answers={("evaluate", 0): answer})

    assert log.all("eval_accuracy")[0].metadata["signature"] == "tok:13a\\n:::MLLOG"
    assert "signature" not in plain.all("eval_accuracy")[0].metadata
    assert log.defects == ()


LOST = WorkerLost("the worker ended while it was working; killed by SIGKILL")


@pytest.mark.parametrize(
    ("command", "answer", "reason", "num_evaluations"),
    [
        ("train", LOST, "crashed", 1),
        ("train", WorkerLost("killed", "oom"), "oom", 1),
        ("train", {"ok": False, "kind": "oom", "message": "OutOfMemoryError: CUDA out of memory"}, "oom", 1),
        ("train", {"ok": False, "kind": "crashed", "message": "ValueError: boom (model.py:3)"}, "crashed", 1),
        ("train", {"ok": True}, "crashed", 1),
        ("train", {"ok": True, "num_samples": 999, "mean_loss": 1.0, "data_wait_s": 0.0}, "crashed", 1),
        ("train", {"ok": True, "num_samples": 1000, "mean_loss": 1.0, "data_wait_s": 2.1}, "crashed", 1),
        ("train", {"ok": True, "num_samples": True, "mean_loss": 1.0, "data_wait_s": 0.0}, "crashed", 1),
        ("train", {"ok": True, "num_samples": 1000, "mean_loss": "1", "data_wait_s": 0.0}, "crashed", 1),
        ("train", {"ok": True, "num_samples": 10**400, "mean_loss": 1.0, "data_wait_s": 0.0}, "crashed", 1),
        ("train", {"ok": True, "num_samples": -1000, "mean_loss": 1.0, "data_wait_s": 0.0}, "crashed", 1),
        ("train", {"ok": True, "num_samples": 1000, "mean_loss": 10**400, "data_wait_s": 0.0}, "diverged", 1),
        ("train", {"ok": True, "num_samples": 1000, "mean_loss": math.nan, "data_wait_s": 0.0}, "diverged", 1),
        ("train", {"ok": True, "num_samples": 1000, "mean_loss": math.inf, "data_wait_s": 0.0}, "diverged", 1),
        ("evaluate", {"ok": True, "value": -(10**400), "num_examples": 5}, "diverged", 1),
        ("evaluate", {"ok": True, "value": math.nan, "num_examples": 5}, "diverged", 1),
        ("evaluate", {"ok": True, "value": 0.5, "num_examples": 10**400}, "crashed", 1),
        ("evaluate", {"ok": True, "value": None, "num_examples": 5}, "crashed", 1),
        ("start", {"ok": True}, "crashed", 0),
        ("start", {"ok": True, "touched_early": "train.npy"}, "crashed", 0),
        ("open", {"ok": True, "config": [1]}, "budget", 10),
        ("prepare", {"ok": 1}, "crashed", 0),
        ("prepare", {}, "crashed", 0),
    ],
)
def test_answer_of_any_kind_closes_the_log_with_its_reason(
    tmp_path: Path, command: str, answer: Any, reason: str, num_evaluations: int
) -> None:
    """After a lost worker, a failure, a missing field, a wrong type or a NaN, the log is complete up to there."""
    nth = 1 if command in ("train", "evaluate") else 0
    outcome, log, _ = play(tmp_path / "log", [0.1], answers={(command, nth): answer})

    assert (outcome.status, outcome.reason) == ("aborted", reason)
    assert len(log.all("eval_accuracy")) == num_evaluations
    assert (log.events[-1].key, log.defects) == ("tta_end", ())


def test_worker_that_hangs_is_ended_after_the_budget_and_the_grace(tmp_path: Path) -> None:
    """No answer by max_seconds + grace: aborted, timeout."""
    outcome, log, _ = play(tmp_path / "log", [0.1], rules=benchmark_rules(max_seconds=10.0), seconds={"train": 1000.0})

    assert outcome.reason == "timeout"
    assert log.seconds(log.one("run_start"), log.one("run_stop")) == pytest.approx(40.0)


def test_initialisation_over_its_limit_is_a_timeout_without_a_clock(tmp_path: Path) -> None:
    """prepare() may take at most max_init_s; the run then has no time."""
    outcome, log, _ = play(tmp_path / "log", [0.1], seconds={"prepare": 1801.0})

    assert (outcome.reason, outcome.run_s) == ("timeout", None)
    assert log.first("run_start") is None


def test_interrupt_closes_the_log_as_aborted_and_is_raised(tmp_path: Path) -> None:
    """A signal ends the worker and the log, and the shell sees an interrupt."""
    with pytest.raises(Interrupted):
        play(tmp_path / "log", [0.1], interrupt_after_s=5.0)

    log = run_log.read(tmp_path / "log")
    assert (stop_of(log)["status"], stop_of(log)["reason"]) == ("aborted", "interrupted")
    assert log.events[-1].key == "tta_end"


@pytest.mark.parametrize("evidence", ["rank 1 was killed by SIGTERM", "node 1 (n2): its helper is gone"])
def test_worker_lost_by_a_signal_for_all_is_an_interrupt(tmp_path: Path, evidence: str) -> None:
    """A scheduler ends all processes of a job at once; which of them notices first does not matter."""
    clock = FakeClock()

    def lose() -> None:
        clock.now_ns = int(20e9)
        raise WorkerLost(evidence, node=1)

    with pytest.raises(Interrupted):
        play(tmp_path / "log", [0.1], clock=clock, interrupt_after_s=20.0, answers={("train", 1): lose})

    log = run_log.read(tmp_path / "log")
    assert stop_of(log)["reason"] == "interrupted"
    assert stop_of(log)["evidence"] == f"interrupted by a signal; {evidence}"
    assert log.first("tta_node_lost") is None


@pytest.mark.parametrize(("kind", "error"), [("usage", UsageError), ("data", DataError)])
def test_refused_configuration_is_the_callers_error(tmp_path: Path, kind: str, error: type[Exception]) -> None:
    """Input that the workload refuses is an input error, with the log closed."""
    answer = {"ok": False, "kind": kind, "message": "global_batch_size 9999 is larger than the data"}

    with pytest.raises(error, match="larger than the data"):
        play(tmp_path / "log", [0.1], answers={("start", 0): answer})

    assert stop_of(run_log.read(tmp_path / "log"))["status"] == "aborted"


@pytest.mark.parametrize(
    "world", [[], [{"rank": 0}], [{"rank": 0}, {"rank": 0}], [{"rank": 0}, {"rank": 1}, {"rank": 2}]]
)
def test_world_that_was_not_declared_is_refused(tmp_path: Path, world: list[dict[str, Any]]) -> None:
    """A launcher that silently starts another number of processes cannot produce a result."""
    with pytest.raises(UsageError, match="2 devices were declared"):
        play(tmp_path / "log", [0.95], world=world, num_devices=2)


def test_ledger_sums_to_the_run(tmp_path: Path) -> None:
    """Every second of the run belongs to a phase."""
    _, log, _ = play(tmp_path / "log", [0.5, 0.95])

    ledger = log.value("tta_ledger")
    assert ledger["run_s"] == pytest.approx(
        sum(ledger[f"{p}_s"] for p in ("data", "train", "eval", "checkpoint", "other"))
    )
    assert ledger["init_s"] == 1.0
    assert ledger["data_s"] == pytest.approx(0.2 + 2 * 0.1)
    assert ledger["eval_s"] == 1.0
    assert ledger["other_s"] == 0.0


def test_data_are_named_to_the_worker_only_after_run_start(tmp_path: Path) -> None:
    """The configuration of the worker does not have the location of the data."""
    _, _, worker = play(tmp_path / "log", [0.95])

    opened = next(command for command in worker.asked if command["do"] == "open")
    assert "/nowhere" not in str(opened)


def test_energy_is_the_integral_over_the_run(tmp_path: Path) -> None:
    """10 W over the run are ten joules a second, whatever was drawn before and after; the source is logged."""
    power = ScriptedPower([10.0])

    _, log, _ = play(tmp_path / "log", [0.5, 0.95], power=power)

    energy = log.value("tta_energy")
    assert energy["energy_j"] == pytest.approx(10 * (0.2 + 2 * 2.5))
    assert (energy["source"], energy["class"], energy["scope"]) == ("measured", "B", "node (ac)")
    assert (energy["coverage"], energy["meters"], energy["method"]) == (1.0, ["ipmi:bmc0"], "tta-2")
    assert energy["void"] == ["few_samples"]  # the run has 5.2 s
    assert 0 < energy["u95_j"] <= 0.06 * energy["energy_j"]
    assert power.calls == ["begin", "end"]


def test_run_without_a_meter_has_no_energy_and_is_whole(tmp_path: Path) -> None:
    """Null and class N, never 0; the run reaches its target like any other."""
    outcome, log, _ = play(tmp_path / "log", [0.5, 0.95])

    energy = log.value("tta_energy")
    assert outcome.is_reached
    assert (energy["energy_j"], energy["source"], energy["class"]) == (None, "none", "N")
    assert energy["void"] == energy["meters"] == []
    assert log.defects == ()


def test_nodes_are_added_up_and_a_lost_one_voids_the_energy_only(tmp_path: Path) -> None:
    """Three nodes of 100, 200 and 300 W; if their agents are lost after 4 s, time and status do not change."""
    rules = benchmark_rules(max_seconds=1000.0)
    whole, log, _ = play(tmp_path / "a", [0.5] * 30 + [0.95], rules, power=ScriptedPower([100.0, 200.0, 300.0]))
    lost, cut, _ = play(
        tmp_path / "b", [0.5] * 30 + [0.95], rules, power=ScriptedPower([100.0, 200.0, 300.0], lost_at_s=4.0)
    )

    assert whole == lost
    assert log.value("tta_energy")["energy_j"] == pytest.approx(600 * (whole.run_s or 0))
    assert log.value("tta_energy")["void"] == []
    assert {"coverage", "gap"} <= set(cut.value("tta_energy")["void"])


@pytest.mark.parametrize(
    ("how", "is_measured"),
    [
        ({"answers": {("prepare", 0): {"ok": False, "kind": "crashed", "message": "boom"}}}, False),
        ({"answers": {("open", 0): {"ok": False, "kind": "usage", "message": "no"}}}, False),
        ({"answers": {("train", 1): WorkerLost("killed", "oom")}}, True),
        ({"interrupt_after_s": 5.0}, True),
    ],
)
def test_meters_end_however_the_run_ends(tmp_path: Path, how: dict[str, Any], is_measured: bool) -> None:
    """The power logs are closed, once, after a crash, a refusal or a signal; a started run has its energy."""
    power = ScriptedPower([10.0])

    with contextlib.suppress(UsageError, Interrupted):
        play(tmp_path / "log", [0.1], power=power, **how)

    assert power.calls == ["begin", "end"]
    energy = run_log.read(tmp_path / "log").value("tta_energy")
    assert (energy["source"] == "measured") == is_measured
    assert ((energy["energy_j"] or 0) > 0) == is_measured


@pytest.mark.parametrize(
    ("answer", "logged"),
    [
        ({"ok": True, "files": ["/a.py"]}, ["/a.py"]),
        ({"ok": True, "files": ["/a.py", 3]}, None),
        ({"ok": True, "files": "/a.py"}, None),
        (WorkerLost("the worker ended"), None),
    ],
)
def test_files_that_the_worker_lists_are_judged_after_the_run(tmp_path: Path, answer: Any, logged: object) -> None:
    """Never before `run_stop`; an answer that is no list of paths is none."""
    outcome, log, worker = play(tmp_path / "log", [0.95], answers={("loaded", 0): answer})

    assert outcome.is_reached
    assert log.value("tta_loaded") == {"referee": {}, "worker": logged, "evaluator": ["/usr/lib/libc.so.6"]}
    assert [event.key for event in log.events][-2:] == ["tta_loaded", "tta_end"]
    assert [command["do"] for command in worker.asked][-3:] == ["loaded", "loaded_by_evaluator", "close"]


def test_lost_worker_is_not_asked_what_it_has_loaded(tmp_path: Path) -> None:
    """There is no one to answer."""
    _, log, worker = play(tmp_path / "log", [0.95], answers={("train", 0): WorkerLost("the worker ended")})

    assert log.value("tta_loaded") == {"referee": {}, "worker": None, "evaluator": None}
    assert "loaded" not in [command["do"] for command in worker.asked]
