"""The division of the system description is misspelt.

## What it does
Expects `division` of the system description to be exactly closed or open.

## Why it matters
MLCommons' package checker looks at seeds and convergence only if it is exactly "closed": "close" switches both off, and
every score passes. Here the logs decide, and nothing in the description switches anything off.

## Example
`"division": "close"`, with ten copies of one log next to it.

## Instead
Write closed or open.

## Source
mlperf_logging, package_checker; a submission of round 1.0 that it passes for this reason.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.files import line_of
from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None or result.system is None or "division" not in result.system:
        return
    assert result.system_path is not None
    division = result.system["division"]
    if division not in ruleset.divisions:
        known = " or ".join(ruleset.divisions)
        message = f"division is {printable(division, 60)!r}; it must be {known}"
        yield Fault(str(result.system_path), line_of(result.system_path, "division"), message)
