"""A log names a division that does not exist.

## What it does
Looks up `submission_division` among the divisions of the ruleset, letter for letter.

## Why it matters
An unknown division must not be one in which nothing is checked.

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
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    division = log.value(keys.SUBMISSION_DIVISION)
    if isinstance(division, str) and division not in ruleset.divisions:
        line = log.line_of(keys.SUBMISSION_DIVISION)
        yield Fault(str(log.path), line, unknown_name("division", division, ruleset.divisions))
