"""The evaluations of a run follow one another at the same interval, to the millisecond.

## What it does
Takes the times from each evaluation to the next, those under a second left out, and counts how many of them are exactly
equal. Logs with whole seconds only are AUD005's.

## Why it matters
Training and evaluation take a little more or less time on each round, by more than a millisecond. Equal intervals were
calculated.

## Example
Twelve evaluations, each 61.250 s after the previous one.

## Instead
Log the time as the clock gives it when an evaluation ends.

## Source
Published rounds: of the runs with four intervals or more, the steadiest (a TPU that evaluates every 1.1 s) has 45 % of
them equal.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
ONLINE_ONLY = True
LIMITS = ("min_intervals", "max_equal_fraction")
LEAST_MS = 1000


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    times = [round(1e3 * point.at_s) for point in run.curve]
    intervals = [after - before for before, after in itertools.pairwise(times) if after - before >= LEAST_MS]
    if len(intervals) < rule["min_intervals"] or all(ms % 1000 == 0 for ms in intervals):
        return
    ms, number = Counter(intervals).most_common(1)[0]
    if number > rule["max_equal_fraction"] * len(intervals):
        yield evidence(
            run.path,
            run.curve[1].line,
            f"{number} of {len(intervals)} intervals from one evaluation to the next are exactly {ms / 1e3:.3f} s",
            number / len(intervals),
            seconds=ms / 1e3,
            times=number,
        )
