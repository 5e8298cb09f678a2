"""The run starts or stops more than once.

## What it does
Counts `run_start` and `run_stop`. Their value is null, so MLCommons' checker takes many of them to be "equal".

## Why it matters
The score is the time between one start and one stop. A second start shortly before the stop makes it arbitrary.

## Example
A second `run_start` 10 s before `run_stop`: a score of 0.167 minutes instead of 5.1.

## Instead
Log from one process, once.

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
    for name in (keys.RUN_START, keys.RUN_STOP):
        lines = log.all(name)
        if len(lines) > 1:
            apart_s = (lines[-1].time_ms - lines[0].time_ms) / 1e3
            yield Fault(
                str(log.path),
                lines[1].lineno,
                f"{name} occurs {len(lines)} times, the last {apart_s:.3f} s after the first; it must occur once",
                {"apart_s": apart_s},
            )
