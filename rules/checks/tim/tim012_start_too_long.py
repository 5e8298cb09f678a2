"""Too much time passed before initialisation began.

## What it does
Compares the time from the first line of the log to `init_start` with a limit of 1,500 s. The referee waits at most 600
s for a worker to start, 600 s for it to open its session, and a few seconds for the first reading of every meter.

## Why it matters
Neither the limit on initialisation nor the clock covers this time, and the worker is already running.

## Example
Three hours between `tta_world` and `init_start`: a model was compiled and tuned before any limit applied.

## Instead
Do the work in `prepare()`, within its limit.

## Source
MLPerf training rules, "Run Results": only initialisation, which is limited, comes before the clock. The referee's own
limits: harness/run/referee.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
MAX_START_S = 1500.0


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    begin = log.first(keys.INIT_START)
    if begin is None:
        return
    start_s = log.seconds(log.events[0], begin)
    if start_s > MAX_START_S:
        yield Fault(
            str(log.path),
            begin.lineno,
            f"{start_s:.1f} s passed before init_start; the referee waits at most {MAX_START_S:g} s",
            {"start_s": start_s},
        )
