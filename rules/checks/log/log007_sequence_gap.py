"""The numbers of the lines do not follow each other.

## What it does
Expects `seq` to be 0 on the first line and one more on each line after it.

## Why it matters
A hole is a line that was taken out; a repeated number is a line that was put in or moved.

## Example
Line 40 has seq 39, line 41 has seq 42: two evaluations are gone.

## Instead
Hand in the log as it was written.

## Source
The line format: harness/log/events.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for defect in log.defects_of("sequence"):
        yield Fault(str(log.path), defect.lineno, defect.message)
