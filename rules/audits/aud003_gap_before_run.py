"""Time that belongs to neither passes between initialisation and the clock.

## What it does
Takes the time from `init_stop` to `run_start`.

## Why it matters
Initialisation has a limit and the run has a clock; what happens between them counts towards neither.

## Example
init_stop at 12:00:00, run_start at 17:00:00.

## Instead
Start the run when initialisation stops.

## Source
MLPerf training rules, "Run Results". MLPerf's checker compares only init_start and init_stop.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys

SCOPE = "log"
LIMITS = ("max_s",)


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    stop = run.log.first(keys.INIT_STOP)
    if stop is None or run.start is None:
        return
    gap_s = run.log.seconds(stop, run.start)
    if gap_s > rule["max_s"]:
        yield evidence(
            run.path,
            run.start.lineno,
            f"{gap_s:.1f} s passed from init_stop to run_start; up to {rule['max_s']:g} s is usual",
            gap_s / 3600,
            gap_s=gap_s,
        )
