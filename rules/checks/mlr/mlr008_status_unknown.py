"""The status of the system is not one that the round allows.

## What it does
Compares `status` of the system description with the four that the rules have from round 4.1 on: Available on-premise;
Available cloud; Research, Development, or Internal (RDI); Preview.

## Why it matters
It tells a reader whether the system can be bought, and tables are sorted by it.

## Example
`"status": "onprem"`, which was valid in round 4.0.

## Instead
Write one of the four.

## Source
MLPerf submission rules; mlperf_logging, system_desc_checker, which also requires it in round 4.0.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.files import line_of
from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import system
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None or result.system is None or "status" not in result.system:
        return
    assert result.system_path is not None
    status, known = result.system["status"], system.STATUSES.values()
    if status not in known:
        message = f"status is {printable(status, 60)}; it must be one of {'; '.join(known)}"
        yield Fault(str(result.system_path), line_of(result.system_path, "status"), message)
