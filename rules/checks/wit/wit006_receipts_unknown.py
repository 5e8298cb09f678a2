"""The receipts of a result are not those that the witness gave out for it.

## What it does
A leaderboard's service looks up every receipt of a result in its own log: that it is an event of the log, that the
campaign was opened by the submitter for the round of the submission, and that no head is left out that the service
received of the runs. `tta check` cannot, and says nothing; `tta witness verify` asks a service, or a checkpoint.

## Why it matters
A receipt is worth what its log is worth. One that the service has never given out was made by somebody else; one that
is left out may be of a head that the log, changed since, does not have; and a campaign in another round, or of a
friend's, is another try.

## Example
The receipts were signed with a key that was made for that.

## Instead
Submit to the service that witnessed the runs, in the round of their campaign, with all receipts.

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
    for place, why in result.receipt_faults:
        path, _, line = place.rpartition(":")
        if path and line.isdigit():
            yield Fault(path, int(line), why)
        else:
            yield Fault(place, None, why)
