"""A log names a division that there is not.

## What it does
Looks up `submission_division` among the divisions of the ruleset, letter for letter.

## Why it matters
A division that nobody knows must not be one in which nothing is checked.

## Example
`submission_division` is "close".

## Instead
Write closed or open.

## Source
MLPerf training rules, "Divisions". In MLPerf's package checker "close" skips the seed and convergence checks; 30
published v1.0 logs have it.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness import events as key
from harness.errors import unknown_name
from harness.findings import Fault
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runlog import RunLog

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    event = log.first(key.SUBMISSION_DIVISION)
    if event is not None and isinstance(event.value, str) and event.value not in ruleset.divisions:
        yield Fault(str(log.path), event.lineno, unknown_name("division", event.value, ruleset.divisions))
