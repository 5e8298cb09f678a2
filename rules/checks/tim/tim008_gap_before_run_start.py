"""Time passed between the end of initialisation and the start of the clock.

## What it does
Compares the time from `init_stop` to `run_start` with a limit of 1 s. The referee writes a single line in between.

## Why it matters
What happens there is neither part of initialisation, which is limited, nor on the clock.

## Example
Five hours between `init_stop` and `run_start`: MLPerf's checker passes the log.

## Instead
Do the work in `prepare()`, within its limit, or after `run_start`.

## Source
MLPerf training rules, "Run Results": the clock starts when the time allowed for initialisation is over.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
MAX_GAP_S = 1.0


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    stop, start = log.first(keys.INIT_STOP), log.first(keys.RUN_START)
    if stop is None or start is None:
        return
    gap_s = log.seconds(stop, start)
    if gap_s > MAX_GAP_S:
        yield Fault(
            str(log.path),
            start.lineno,
            f"{gap_s:.1f} s passed from init_stop to run_start; at most {MAX_GAP_S:g} s may",
            {"gap_s": gap_s},
        )
