"""A key that the round asks for is not in the log.

## What it does
Counts the lines of every key of the round's pages for this division and benchmark, and of groups of keys of which one
must be there.

## Why it matters
What is not logged cannot be checked.

## Example
No `run_stop`: the log was cut off, or the run did not end.

## Instead
Log the key. A run whose log was cut off did not converge.

## Source
The rule files of MLCommons' compliance checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness import roundlog
from harness.findings import Fault
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runlog import RunLog

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is not None:
        yield from roundlog.faults(log, ruleset.round, "missing")
