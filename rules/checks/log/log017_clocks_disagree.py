"""The two times of a line do not belong together.

## What it does
Compares `time_ms` with `elapsed_ns` on every line. The referee reads the wall clock once and derives every `time_ms`
from monotonic time, so their difference is the same on every line, to 2 ms of rounding.

## Why it matters
Whoever edits one of the two times and forgets the other has edited the log.

## Example
`elapsed_ns` of `run_stop` moved forward by 100 s, `time_ms` left as it was.

## Instead
Hand in the log as it was written.

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
