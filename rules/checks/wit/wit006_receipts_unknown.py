"""A receipt is not one of the witness that judges it.

## What it does
A leaderboard's service looks up every receipt of a result in its own log. `tta check` cannot, and says nothing;
`tta witness verify` asks a service, or a checkpoint.

## Why it matters
A receipt is worth what its log is worth. One that the service has never given out was made by somebody else.

## Example
The receipts were signed with a key that was made for that.

## Instead
Submit to the service that witnessed the runs.

## Source
docs/explanation/witness.md, "Receipts".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for place in result.unknown_receipts:
        path, _, line = place.rpartition(":")
        if path and line.isdigit():
            yield Fault(path, int(line), "the log of this service has no such event")
        else:
            yield Fault(place, None, "the log of this service has no such event")
