"""The speed changes within a run without a visible reason.

## What it does
Compares the samples (or epochs) per second from each evaluation to the next with the median of the run, without the
first interval, in which programs compile and fill caches. From `run_start` to the first evaluation a run may be slow,
but not fast.

## Why it matters
The same work takes the same time. In an interval that is far too fast the work was not done, or the clock was set; one
that is far too slow was interrupted. Work done before the clock started makes the first interval fast.

## Example
Twenty intervals at 2,500 samples/s, one at 25,000.

## Instead
Train the same work at every step.

## Source
Published rounds; the limits were set on half of them.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator

from harness.checker.audit.facts import Point, RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
ONLINE_ONLY = True
LIMITS = ("min_pieces", "max_faster", "max_slower", "max_first_faster")


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    yield from _first_piece(run, rule)
    pieces = list(itertools.pairwise(run.curve))[1:]
    speeds = [(after, speed) for before, after in pieces if (speed := _speed(before, after)) is not None]
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
            yield evidence(
                run.path,
                point.line,
                f"{speed:.4g} {point.unit}/s up to this evaluation, {factor:.1f} times as {words} as the run's median "
                f"({median:.4g}); up to {limit:g} times is usual",
                (1 - limit / factor) * (1.0 if words == "fast" else 0.5),
                speed=speed,
                median=median,
            )


def _first_piece(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    """The run up to its first evaluation, which has more to do than any other interval."""
    speeds = [speed for before, after in itertools.pairwise(run.curve) if (speed := _speed(before, after)) is not None]
    if len(speeds) < 2 or run.start is None:
        return
    first, median = run.curve[0], statistics.median(speeds)
    done, step = first.position or 0.0, (run.curve[1].position or 0.0) - (first.position or 0.0)
    if first.unit == "epochs" and math.isclose(done - 1, step, rel_tol=0.02) and step < 0.5:
        done -= 1  # DLRM logs count the epoch under way as the first
    if first.at_s > 0 and done / first.at_s > rule["max_first_faster"] * median:
        factor = done / first.at_s / median
        yield evidence(
            run.path,
            first.line,
            f"{done:g} {first.unit} in the {first.at_s:.1f} s from run_start to the first evaluation: {factor:.1f} "
            f"times as fast as the run's median; up to {rule['max_first_faster']:g} times is usual",
            1 - rule["max_first_faster"] / factor,
            factor=factor,
        )


def _speed(before: Point, after: Point) -> float | None:
    if before.position is None or after.position is None or after.unit != before.unit:
        return None
    seconds, work = after.at_s - before.at_s, after.position - before.position
    return work / seconds if seconds > 0 and work > 0 else None
