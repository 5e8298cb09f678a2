"""A log names a different submitter, platform or status from the system description.

## What it does
Compares `submission_org`, `submission_platform` and `submission_status` with `submitter`, `system_name` and `status`.

## Why it matters
A result belongs to the submitter who made it and the system it was made on.

## Example
`submission_org` is "acme", the description says "globex".

## Instead
State these before the run: `tta run --system FILE`.

## Source
MLPerf submission rules. MLPerf's checkers do not compare them, and published logs have SUBMISSION_ORG_PLACEHOLDER.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"
_FIELDS = {
    keys.SUBMISSION_ORG: "submitter",
    keys.SUBMISSION_PLATFORM: "system_name",
    keys.SUBMISSION_STATUS: "status",
}


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.system is None:
        return
    for log in result.runs:
        for name, field in _FIELDS.items():
            event, described = log.first(name), result.system.get(field)
            if event is not None and isinstance(described, str) and event.value != described:
                yield Fault(
                    str(log.path),
                    event.lineno,
                    f"{name} is {printable(event.value, 60)!r}; "
                    f"the description's {field} is {printable(described, 60)!r}",
                )
