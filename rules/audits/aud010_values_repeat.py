"""Evaluations give exactly the same value again and again.

## What it does
Counts how often each value occurs among the evaluations of a run, to the last digit.

## Why it matters
A network that learns does not evaluate to the same number five times. Constant values were written, not measured.

## Example
Twenty evaluations, each 0.01.

## Instead
Evaluate the network as it is at that time.

## Source
Facts of published rounds: a log whose evaluations are all equal passes MLPerf's checker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
ONLINE_ONLY = True  # a share of games won, as in MiniGo, has few values
LIMITS = ("min_evaluations", "max_same_fraction")


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    values = [point.value for point in run.curve]
    if len(values) < rule["min_evaluations"]:
        return
    value, times = Counter(values).most_common(1)[0]
    if times > rule["max_same_fraction"] * len(values) and times > 1:
        line = next(point.line for point in run.curve if point.value == value)
        yield evidence(
            run.path,
            line,
            f"{times} of {len(values)} evaluations are exactly {value:g}",
            times / len(values),
            value=value,
            times=times,
            evaluations=len(values),
        )
