"""A run took zero or negative time.

## What it does
Expects `run_stop` to be later than `run_start`.

## Why it matters
A time of zero or less would win every ranking, and is impossible.

## Example
`run_stop` 60 s before `run_start`: MLPerf's checker passes the log and gives it -1 minute.

## Instead
Submit the log as it was written.

## Source
MLPerf training rules, "Run Results".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    run_s = timeline.run_s(log)
    if run_s is not None and run_s <= 0:
        yield Fault(
            str(log.path),
            log.line_of(keys.RUN_STOP),
            f"the run took {run_s:.3f} s from run_start to run_stop; it must take longer than 0 s",
            {"run_s": run_s},
        )
