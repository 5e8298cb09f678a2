"""The system description says available and the logs do not.

## What it does
Compares `submission_status` of the logs, where it is preview or research, with `status` of the system description.

## Why it matters
Readers of the results buy what is said to be available.

## Example
`submission_status` is research; `status` is "Available on-premise".

## Instead
State in both what the system was on the day of the runs.

## Source
MLPerf submission rules, "Systems": available, preview, and research, development or internal. No published result of
four rounds contradicts itself in this way.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"
NOT_AVAILABLE = ("preview", "research")


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    status = (result.system or {}).get("status")
    if ruleset.round is None or not isinstance(status, str) or not status.lower().startswith("available"):
        return
    for log in result.runs:
        stated = log.value(keys.SUBMISSION_STATUS)
        if stated in NOT_AVAILABLE:
            message = f"submission_status is {stated}; the system description has {printable(status, 60)!r}"
            yield Fault(str(log.path), log.line_of(keys.SUBMISSION_STATUS), message)
            return
