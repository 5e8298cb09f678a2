"""One interval of a run took many times as long as the others.

## What it does
Compares the time from each evaluation to the next with the median of these times, in runs with five evaluations or
more.

## Why it matters
A run that waited for hours, was suspended, or whose clock was set is not the run that its time suggests.

## Example
Twenty evaluations 60 s apart, and one 18,000 s after the previous one.

## Instead
Run without interruption; if a run was interrupted, run it again.

## Source
MLPerf training rules, "Run Results": the clock may not be paused.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
ONLINE_ONLY = True
LIMITS = ("max_factor", "min_s")


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    pieces = [(after, after.at_s - before.at_s) for before, after in itertools.pairwise(run.curve)]
    if len(pieces) < 4:
        return
    median_s = statistics.median(seconds for _, seconds in pieces)
    point, longest_s = max(pieces, key=lambda pair: pair[1])
    if median_s > 0 and longest_s > rule["max_factor"] * median_s and longest_s - median_s > rule["min_s"]:
        yield evidence(
            run.path,
            point.line,
            f"{longest_s:.1f} s from one evaluation to this one; the median of the run is {median_s:.1f} s, and up to "
            f"{rule['max_factor']:g} times that is usual",
            longest_s / median_s / 100,
            longest_s=longest_s,
            median_s=median_s,
        )
