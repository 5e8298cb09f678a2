"""Monotonic time goes back from one line to the next.

## What it does
Expects `elapsed_ns` never to decrease.

## Why it matters
The referee's clock cannot go back. Lines were moved, or their times were edited.

## Example
Line 40 at 12.5 s, line 41 at 8.1 s.

## Instead
Submit the log as it was written.

## Source
The referee's clock: harness/base/clock.py. MLPerf's checker passes lines in any order of time.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for defect in log.defects_of("backwards"):
        yield Fault(str(log.path), defect.lineno, defect.message)
