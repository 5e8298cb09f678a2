"""Every time in the log is a whole second.

## What it does
Checks whether all times of a log of many lines are multiples of 1,000 ms.

## Why it matters
A program that logs uses the milliseconds of its clock. Whole seconds throughout were typed, or made by another program.

## Example
Forty lines, and every time ends in 000.

## Instead
Log the time as the clock gives it.

## Source
MLPerf's logging library writes milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import MIN_TIME_MS, RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
LIMITS = ("min_events", "max_fraction")


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    times = [event for event in run.log.events if event.time_ms >= MIN_TIME_MS]
    whole = [event for event in times if event.time_ms % 1000 == 0]
    if len(times) >= rule["min_events"] and len(whole) > rule["max_fraction"] * len(times):
        yield evidence(
            run.path,
            whole[0].lineno,
            f"{len(whole)} of {len(times)} times are whole seconds; with a millisecond clock, one in a thousand is",
            len(whole) / len(times),
            whole=len(whole),
            events=len(times),
        )
