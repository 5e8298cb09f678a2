"""Much time passed between the end of initialisation and the start of the clock.

## What it does
Compares the time from `init_stop` to `run_start` with a limit of ten minutes.

## Why it matters
What happens there is neither part of initialisation, which is limited, nor on the clock. MLCommons' checker does not
look at it.

## Example
Five hours between `init_stop` and `run_start`.

## Instead
Start the clock when initialisation is over.

## Source
Not a rule of MLCommons' compliance checker, which passes a log changed in this way; see
docs/reports/mlperf-agreement.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
MAX_GAP_S = 600.0


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    stop, start = log.first(keys.INIT_STOP), log.first(keys.RUN_START)
    if stop is None or start is None:
        return
    gap_s = (start.time_ms - stop.time_ms) / 1e3
    if gap_s > MAX_GAP_S:
        yield Fault(
            str(log.path),
            start.lineno,
            f"{gap_s:.1f} s passed from init_stop to run_start; up to {MAX_GAP_S:g} s is usual",
            {"gap_s": gap_s},
        )
