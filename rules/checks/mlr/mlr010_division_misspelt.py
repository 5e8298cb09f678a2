"""The division of the system description is none.

## What it does
Looks whether `division` of the system description is closed or open, written so.

## Why it matters
MLCommons' package checker looks at seeds and convergence only where it is exactly "closed": "close" switches both off,
and every score passes. Here the logs decide, and no word of the description switches anything off.

## Example
`"division": "close"`, with ten copies of one log beside it.

## Instead
Write closed or open.

## Source
mlperf_logging, package_checker; a submission of round 1.0 that it passes for this reason.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result, line_of

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
