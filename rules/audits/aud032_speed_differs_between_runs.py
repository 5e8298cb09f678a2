"""The runs of one result train at different speeds.

## What it does
Compares the positions (samples or epochs) per second from the first evaluation to the last of each run with the median
of the others.

## Why it matters
One system and one program have one speed. A run that is faster than the others was made on another system, or its times
were changed.

## Example
Nine runs at 2,500 samples/s, one at 3,400.

## Instead
Make all runs of a result on one system in the same state.

## Source
MLPerf training rules, "System and framework must be consistent". In v5.1, more than 10 % from the median is rare.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts, Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "result"
ONLINE_ONLY = True
LIMITS = ("min_runs", "max_faster", "max_slower")


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    speeds = [(run, speed) for run in subject.runs if (speed := _speed(run))]  # a run of 5e-324 samples has none
    if len(speeds) < rule["min_runs"]:
        return
    for run, speed in speeds:
        median = statistics.median(other for another, other in speeds if another is not run)
        factor, words, limit = (speed / median, "fast", rule["max_faster"])
        if speed < median:
            factor, words, limit = (median / speed, "slow", rule["max_slower"])
        if factor > limit:
            yield evidence(
                run.path,
                run.start.lineno if run.start else None,
                f"this run trains at {speed:.4g} {run.curve[0].unit}/s, {factor:.2f} times as {words} as the median of "
                f"the other runs ({median:.4g}); up to {limit:g} times is usual",
                (1 - limit / factor) * (1.0 if words == "fast" else 0.5),
                speed=speed,
                median=median,
            )


def _speed(run: RunFacts) -> float | None:
    if not run.curve or run.curve[0].position is None or run.curve[-1].position is None:
        return None
    first, last = run.curve[0], run.curve[-1]
    assert first.position is not None
    assert last.position is not None
    if len(run.curve) == 1 or last.position <= first.position:
        return last.position / last.at_s if last.at_s > 0 and last.position > 0 else None
    seconds = last.at_s - first.at_s
    return (last.position - first.position) / seconds if seconds > 0 else None
