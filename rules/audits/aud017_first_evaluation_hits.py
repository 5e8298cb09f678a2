"""The first or only evaluation of the run already meets the target.

## What it does
Checks whether the first logged value reaches the target. A single one is usual in benchmarks whose schedule begins
late.

## Why it matters
Training is evaluated at intervals that are short compared with its length. A run without an evaluation below the target
shows no learning: the others were removed, or the model had been trained before.

## Example
One evaluation, at the end, 0.0002 above the target.

## Instead
Log every evaluation of the schedule.

## Source
Facts of published rounds: all evaluations but the last can be deleted, and MLPerf's checker passes the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
ONLINE_ONLY = True
LIMITS = ()


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    target, benchmark = run.standard.target, run.standard.benchmark
    if target is None or not run.curve:
        return
    if benchmark is not None and benchmark.first_evaluations == "late" and len(run.curve) == 1:
        return
    first = run.curve[0]
    is_reached = first.value >= target if run.standard.direction == "max" else first.value <= target
    if is_reached:
        yield evidence(
            run.path,
            first.line,
            f"the first of {len(run.curve)} evaluations is {first.value:g}; the target is {target:g}",
            1.0 if len(run.curve) == 1 else 0.5,
            value=first.value,
            target=target,
        )
