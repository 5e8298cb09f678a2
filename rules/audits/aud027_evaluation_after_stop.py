"""What decides the run comes after the clock was stopped: evaluations or, from checkpoints, the training before one.

## What it does
Looks for evaluations later than `run_stop` by more than a second, in a run that succeeded. In a run that is evaluated
from checkpoints afterwards, it looks instead for the line on which training up to the deciding checkpoint ended: it
must not be later than `run_stop` by more than one percent of the run, and where such a benchmark is never evaluated
on the clock, some line must say when training was there (MLP024 compares the block before).

## Why it matters
The run ends at the evaluation that reaches the target. If there are others after it, the clock was stopped too early,
or training went on and the best moment was chosen.

## Example
run_stop at 12:00:00, and three evaluations up to 12:04:10. The checkpoint of step 2,000 decides; by its block,
training reached it 30 s after run_stop.

## Instead
Stop the run at the evaluation that reaches the target.

## Source
MLPerf training rules, "Run Results": the clock stops when the target is reached.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import EVALUATION_KEYS, RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log.events import Event
from harness.mlperf.compliance import TRAINING_ENDS, position
from harness.mlperf.score import amount_to_target

SCOPE = "log"
LIMITS = ("max_s", "max_late_fraction")


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    if run.stop is None or run.stop.metadata.get("status") != "success":
        return
    if run.is_evaluated_afterwards:
        yield from _trained_late(run, run.stop, rule)
        return
    evaluations = [event for name in EVALUATION_KEYS for event in run.log.all(name)]
    late = [(run.log.seconds(run.stop, event), event) for event in evaluations]
    late = [(seconds, event) for seconds, event in late if seconds > rule["max_s"]]
    if late:
        seconds, event = max(late, key=lambda pair: pair[0])
        yield evidence(
            run.path,
            event.lineno,
            f"an evaluation is {seconds:.3f} s after run_stop; {len(late)} of {len(evaluations)} come after it",
            len(late) / len(evaluations),
            seconds=seconds,
            times=len(late),
        )


def _trained_late(run: RunFacts, stop: Event, rule: SignalRule) -> Iterator[Evidence]:
    benchmark = run.standard.benchmark
    place = amount_to_target(run.log, benchmark)
    if benchmark is None or place is None:
        return
    lines = [line for key in TRAINING_ENDS for line in run.log.all(key)]
    placed = [(stated, line) for line in lines if (stated := position(line, benchmark)) is not None]
    if benchmark.evaluated == "afterwards" and not any(place / 2 < stated <= place for stated, _ in placed):
        message = f"{place:g} ({benchmark.position}) of training decides the run, and no line says when it was there"
        yield evidence(run.path, stop.lineno, message, 0.5, place=place)
    seconds = min((run.log.seconds(stop, line) for stated, line in placed if stated == place), default=0.0)
    if seconds > rule["max_late_fraction"] * (run.run_s or 0.0) + rule["max_s"]:
        where = f"{place:g} ({benchmark.position})"
        message = f"training was at {where}, which decides the run, {seconds:.3f} s after run_stop"
        yield evidence(run.path, stop.lineno, message, 1.0, place=place, seconds=seconds)
