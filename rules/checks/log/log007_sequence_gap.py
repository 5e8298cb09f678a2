"""The sequence numbers of the lines are not consecutive.

## What it does
Expects `seq` to be 0 on the first line and to increase by one on each line after it.

## Why it matters
A gap is a line that was removed; a repeated number is a line that was inserted or moved.

## Example
Line 40 has seq 39 and line 41 has seq 42: two evaluations are gone.

## Instead
Submit the log as it was written.

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
