"""A line has an impossible time: zero, long ago, or in the future.

## What it does
Compares the wall time of each line with the year 2010 and with the day of the audit.

## Why it matters
No clock showed that time. The line was added by hand or by a script after the run.

## Example
`"time_ms": 0` on the line that names the division.

## Instead
Let the run write its own header.

## Source
Published v0.7 logs have header lines with time 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import MIN_TIME_MS, RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
LIMITS = ("max_ahead_days",)


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    latest_ms = run.standard.today_ms + rule["max_ahead_days"] * 86_400_000
    early = [event for event in run.log.events if event.time_ms < MIN_TIME_MS]
    late = [event for event in run.log.events if event.time_ms > latest_ms]
    for events, words in ((early, "before 2010"), (late, "in the future")):
        if events:
            yield evidence(
                run.path,
                events[0].lineno,
                f"{events[0].key} has a time {words} ({events[0].time_ms:.0f} ms), one of {len(events)} such lines",
                1.0 if events is late else len(events) / len(run.log.events),
                lines=len(events),
            )
