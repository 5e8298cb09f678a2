"""The framework's clock contradicts the log's clock in the same file.

## What it does
Every dated line of another program is between two lines of the log. A single time zone must put its date between their
times; lines that no such zone puts there are counted.

## Why it matters
Two clocks in one file are two witnesses. Times that were divided, shifted or typed agree with only one of them.

## Example
The framework shows 30 minutes between two lines; the log shows three.

## Instead
Leave times unchanged.

## Source
Logs with the framework's output between the lines, as in MLPerf's rounds since v0.7.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.log_text import Stamp
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
LIMITS = ("max_apart_s", "min_stamps")
ZONE_S = 900  # the finest difference between two time zones


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    stamps = run.text.stamps
    if len(stamps) < rule["min_stamps"]:
        return
    zone_s = ZONE_S * round(statistics.median(item.at_s - item.before_s for item in stamps) / ZONE_S)
    apart = [(item, _outside_s(item, zone_s)) for item in stamps]
    far = [(item, seconds) for item, seconds in apart if seconds > rule["max_apart_s"]]
    if far:
        item, seconds = max(far, key=lambda pair: pair[1])
        yield evidence(
            run.path,
            item.line,
            f"another program's clock is {seconds:.0f} s off the lines around it; {len(far)} of "
            f"{len(stamps)} dated lines are more than {rule['max_apart_s']:g} s off",
            len(far) / len(stamps),
            apart_s=seconds,
            lines=len(far),
            stamps=len(stamps),
        )


def _outside_s(item: Stamp, zone_s: float) -> float:
    """Seconds by which a timestamp, of whole seconds only, is outside the two lines around it."""
    at_s = item.at_s - zone_s
    after_s = float("inf") if item.after_s is None else max(item.after_s, item.before_s)
    return max(0.0, item.before_s - at_s - 1, at_s - after_s - 1)
