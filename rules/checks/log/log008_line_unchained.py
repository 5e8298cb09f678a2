"""A line without sequence number, time or chain is among lines that have them.

## What it does
Reports lines without `seq`, `elapsed_ns` or `prev` in a log of this harness.

## Why it matters
The referee is the only writer of a log. Such a line comes from somewhere else, most often from training code that
prints MLPerf lines of its own, and its values would be taken for the referee's.

## Example
A library that calls `mllogger.event("eval_accuracy", 0.95)` writes to the same file.

## Instead
Let training code print to standard output; the referee keeps that in a file next to the log.

## Source
Only the referee holds the clock: harness/run/referee.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for defect in log.defects_of("unchained"):
        yield Fault(str(log.path), defect.lineno, defect.message)
