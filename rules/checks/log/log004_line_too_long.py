"""A line is longer than any line of a run can be.

## What it does
Reports lines with `:::MLLOG` that are longer than 1 MiB. They are not read.

## Why it matters
The longest line of a real log is a few kilobytes. An endless line is damage, or an attempt to exhaust the reader's
memory.

## Example
A 2 GB binary file that contains the token once.

## Instead
Keep logs as the referee wrote them; let other programs write to files of their own.

## Source
The reader's limits: harness/log/run_log.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for defect in log.defects_of("overlong"):
        yield Fault(str(log.path), defect.lineno, f"{defect.message}; it was not read")
