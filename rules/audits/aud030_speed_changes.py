"""The speed changes within a run for no reason that the log gives.

## What it does
Samples (or epochs) a second from each evaluation to the next, against the median of the run; the first piece is left
out, in which programs compile and fill caches.

## Why it matters
The same work takes the same time. A piece that is far too fast was not done, or the clock was set; one far too slow
was interrupted.

## Example
Twenty pieces at 2,500 samples/s, one at 25,000.

## Instead
Train the same work at every step.

## Source
Published rounds, on half of which the limits were set.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator

from harness.auditing.facts import RunFacts
from harness.auditing.suspicion import SignalRule, Trace, trace

SCOPE = "log"
LIMITS = ("min_pieces", "max_faster", "max_slower")


def check(run: RunFacts, rule: SignalRule) -> Iterator[Trace]:
    speeds = []
    for before, after in list(itertools.pairwise(run.curve))[1:]:
        if before.position is not None and after.position is not None and after.unit == before.unit:
            seconds, work = after.at_s - before.at_s, after.position - before.position
            if seconds > 0 and work > 0:
                speeds.append((after, work / seconds))
    if len(speeds) < rule["min_pieces"]:
        return
    median = statistics.median(speed for _, speed in speeds)
    fastest = max(speeds, key=lambda pair: pair[1])
    slowest = min(speeds, key=lambda pair: pair[1])
    for (point, speed), factor, limit, words in (
        (fastest, fastest[1] / median, rule["max_faster"], "fast"),
        (slowest, median / slowest[1], rule["max_slower"], "slow"),
    ):
        if factor > limit:
            yield trace(
                run.path,
                point.line,
                f"{speed:.4g} {point.unit}/s up to here, {factor:.1f} times as {words} as the run's median "
                f"({median:.4g}); up to {limit:g} times is usual",
                (1 - limit / factor) * (1.0 if words == "fast" else 0.5),
                speed=speed,
                median=median,
            )
