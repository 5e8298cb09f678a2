"""Two evaluations have the same position, or positions decrease.

## What it does
Follows the position (samples, epochs or steps) from one evaluation to the next.

## Why it matters
Training counts up. One position with two values is a second try; a smaller position is a moved line or a restart.

## Example
Evaluations at 3,072 samples with 0.941 and again with 0.925.

## Instead
Log each evaluation once, from one process.

## Source
Thirty repeated positions in published v5.1 logs. Decreasing samples pass MLPerf's checker.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
ONLINE_ONLY = True  # checkpoints are evaluated in any order
LIMITS = ()


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    twice, back = [], []
    if len({point.position for point in run.evaluations}) <= 2 < len(run.evaluations) / 2:
        return  # the field is not a count: each evaluation states the same epoch
    for before, after in itertools.pairwise(point for point in run.evaluations if point.position is not None):
        if before.position is None or after.position is None or before.unit != after.unit:
            continue
        if after.position < before.position:
            back.append((before, after))
        elif after.position == before.position and after.value != before.value:
            twice.append((before, after))
    for pairs, words, strength in ((back, "comes after", 1.0), (twice, "has another value than", 0.3)):
        if pairs:
            before, after = pairs[0]
            yield evidence(
                run.path,
                after.line,
                f"an evaluation at {after.position:g} {after.unit} {words} one at {before.position:g}; "
                f"{len(pairs)} such pairs",
                strength,
                pairs=len(pairs),
            )
