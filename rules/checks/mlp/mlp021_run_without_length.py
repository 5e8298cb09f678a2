"""The clock stops before it starts.

## What it does
Compares the times of the first `run_start` and the first `run_stop`.

## Why it matters
The score is the time between them; for such a run it is zero or negative.

## Example
`run_stop` 60 s before `run_start`: a score of -1.0 minutes.

## Instead
Log each line when it happens.

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


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    start, stop = log.first(keys.RUN_START), log.first(keys.RUN_STOP)
    if start is not None and stop is not None and stop.time_ms <= start.time_ms:
        message = f"run_stop is {(stop.time_ms - start.time_ms) / 1e3:.3f} s after run_start; it must be more than 0 s"
        yield Fault(str(log.path), stop.lineno, message)
