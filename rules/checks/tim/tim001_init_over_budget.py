"""Initialisation took longer than the ruleset allows.

## What it does
Compares the time from the first `init_start` to `init_stop` with `timing.max_init_s` of the run's division. A division
that the ruleset does not have is held to the strictest limit.

## Why it matters
Work hidden in initialisation is not on the clock.

## Example
`init_start` at 0 s, `init_stop` at 1,900 s, max_init_s = 1,800.

## Instead
Start the clock when the limit is reached, or do the work after `run_start`.

## Source
MLPerf training rules, "Run Results": 30 minutes in the closed division, 4 hours in the open.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    start, stop = log.first(keys.INIT_START), log.first(keys.INIT_STOP)
    if start is None or stop is None:
        return
    limits_s = ruleset.timing.max_init_s
    division = log.value(keys.SUBMISSION_DIVISION)
    limit_s = limits_s.get(division) if isinstance(division, str) else None
    limit_s = min(limits_s.values()) if limit_s is None else limit_s
    init_s = log.seconds(start, stop)
    if init_s > limit_s:
        yield Fault(
            str(log.path),
            stop.lineno,
            f"initialisation took {init_s:.1f} s; the limit is {limit_s:g} s",
            {"init_s": init_s, "max_init_s": limit_s},
        )
