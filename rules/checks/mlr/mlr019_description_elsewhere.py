"""Another file replaces the system description that belongs to the result.

## What it does
In MLPerf's directory layout, looks next to the logs for system.json and for the claim of this harness, submission.yaml:
either would name a different description from systems/<system>.json.

## Why it matters
What is checked about a system must be what readers of the results see.

## Example
systems/box.json lacks fields and says "open"; system.json next to the logs has them all and says "closed".

## Instead
Describe the system in systems/<system>.json, where <system> is the name of the folder.

## Source
MLPerf submission rules, directory structure: the description is named after the folder of results.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import layout
from harness.submission.layout import CLAIM_NAME, SYSTEM_NAME
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    place = layout.system_file(result.path)
    if ruleset.round is None or place is None:
        return
    for name in (SYSTEM_NAME, CLAIM_NAME):
        if name in result.files:
            message = f"this file would replace the system description {place.parent.name}/{place.name}"
            yield Fault(str(result.path / name), None, message)
