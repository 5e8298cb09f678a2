"""The last line of a log is cut off.

## What it does
Reports a last line that has `:::MLLOG` but no newline. The referee writes a line and its newline in one call.

## Why it matters
Something was cut off: at least the end of this line, and perhaps further lines.

## Example
A copy that stopped when a disk was full.

## Instead
Copy the log again from where it was written, and compare the digests.

## Source
The writer: harness/log/writer.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for defect in log.defects_of("cut_off"):
        yield Fault(str(log.path), defect.lineno, "the last line has no newline: the log was cut off here or later")
