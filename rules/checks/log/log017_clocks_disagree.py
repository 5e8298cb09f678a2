"""The two times of a line do not agree.

## What it does
Compares `time_ms` with `elapsed_ns` on every line. The referee reads the wall clock once and derives every `time_ms`
from monotonic time, so their difference is the same on every line, to within 2 ms of rounding.

## Why it matters
If one of the two times was edited and the other forgotten, the log was edited.

## Example
`elapsed_ns` of `run_stop` was moved forward by 100 s, and `time_ms` left unchanged.

## Instead
Submit the log as it was written.

## Source
The referee's clock: harness/base/clock.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for defect in log.defects_of("wall"):
        yield Fault(str(log.path), defect.lineno, defect.message)
