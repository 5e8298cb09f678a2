"""The only evaluation of the run, or the first of all, meets the target.

## What it does
Looks whether the first value that is logged already reaches the target.

## Why it matters
Training is watched at intervals that are short beside its length. A run with no evaluation below the target shows no
learning: the others were taken out, or the model was trained before.

## Example
One evaluation, at the end, 0.0002 above the target.

## Instead
Log every evaluation of the schedule.

## Source
facts of published rounds: all evaluations but the last can be deleted and MLPerf's checker passes the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import SignalRule, Trace, trace

SCOPE = "log"
LIMITS = ()


def check(run: RunFacts, rule: SignalRule) -> Iterator[Trace]:
    target = run.standard.target
    if target is None or not run.curve:
        return
    first = run.curve[0]
    is_reached = first.value >= target if run.standard.direction == "max" else first.value <= target
    if is_reached:
        yield trace(
            run.path,
            first.line,
            f"the first of {len(run.curve)} evaluations is {first.value:g}, and the target is {target:g}",
            1.0 if len(run.curve) == 1 else 0.5,
            value=first.value,
            target=target,
        )
