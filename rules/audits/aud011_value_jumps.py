"""The quality jumps after the curve had flattened.

## What it does
In the later half of a run, compares each step from one evaluation to the next with the whole range of the run.

## Why it matters
Learning slows down. A late jump of a large part of all progress is a value from another run, or a typed one.

## Example
0.70, 0.71, 0.71, 0.72, and then 0.95.

## Instead
Nothing, if a schedule causes it; the auditor looks at the learning rate.

## Source
Curves of published rounds; the limit was set on half of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
LIMITS = ("min_evaluations", "max_range_fraction")


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    curve = run.curve
    if len(curve) < rule["min_evaluations"]:
        return
    whole = max(point.value for point in curve) - min(point.value for point in curve)
    late = list(itertools.pairwise(curve))[len(curve) // 2 :]
    before, after = max(late, key=lambda pair: abs(pair[1].value - pair[0].value))
    step = abs(after.value - before.value)
    if whole > 0 and step > rule["max_range_fraction"] * whole:
        yield evidence(
            run.path,
            after.line,
            f"the quality goes from {before.value:g} to {after.value:g} at one evaluation: {100 * step / whole:.0f} % "
            f"of the run's whole range, in its later half",
            step / whole,
            before=before.value,
            after=after.value,
        )
