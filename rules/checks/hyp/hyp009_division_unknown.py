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

from harness.errors import unknown_name
from harness.findings import Fault
from harness.log import events as key
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    division = log.value(key.SUBMISSION_DIVISION)
    if isinstance(division, str) and division not in ruleset.divisions:
        line = log.line_of(key.SUBMISSION_DIVISION)
        yield Fault(str(log.path), line, unknown_name("division", division, ruleset.divisions))
