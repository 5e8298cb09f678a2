"""The quality jumps after the curve had flattened.

## What it does
In the later half of a run, compares by how much an evaluation is better than all before it with the whole range of the
run. A curve that wavers, and recovers, is not better than before.

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
ONLINE_ONLY = True
LIMITS = ("min_evaluations", "max_range_fraction")


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    curve = run.curve
    if len(curve) < rule["min_evaluations"]:
        return
    sign = 1 if run.standard.direction == "max" else -1
    values = [sign * point.value for point in curve]
    best = list(itertools.accumulate(values, max))
    gains = [(after - before, nth) for nth, (before, after) in enumerate(itertools.pairwise(best), 1)]
    gain, nth = max(gains[len(curve) // 2 :])
    whole = max(values) - min(values)
    if whole > 0 and gain > rule["max_range_fraction"] * whole:
        before = sign * best[nth - 1]
        yield evidence(
            run.path,
            curve[nth].line,
            f"the quality goes from {before:g} at best to {curve[nth].value:g} at one evaluation: "
            f"{100 * gain / whole:.0f} % of the run's whole range, in its later half",
            gain / whole,
            before=before,
            after=curve[nth].value,
        )
