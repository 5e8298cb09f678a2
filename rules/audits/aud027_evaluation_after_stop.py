"""Evaluations come after the clock was stopped, in a benchmark that is evaluated while it trains.

## What it does
Looks for evaluations later than `run_stop` by more than a second, in a run that succeeded. Benchmarks and runs that are
evaluated from checkpoints afterwards are exempt.

## Why it matters
The run ends at the evaluation that reaches the target. If there are others after it, the clock was stopped too early,
or training went on and the best moment was chosen.

## Example
run_stop at 12:00:00, and three evaluations up to 12:04:10.

## Instead
Stop the run at the evaluation that reaches the target.

## Source
MLPerf training rules, "Run Results": the clock stops when the target is reached.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import EVALUATION_KEYS, RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
LIMITS = ("max_s",)


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    if run.stop is None or run.stop.metadata.get("status") != "success" or run.is_evaluated_afterwards:
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
