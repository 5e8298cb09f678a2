"""A result has no readable system description.

## What it does
Looks for `system.json` next to the logs or, for a submission, `systems/<system>.json` of the submitter.

## Why it matters
A time without a machine means nothing.

## Example
The claim names the system "box1", and there is no systems/box1.json.

## Instead
`tta doctor --out FILE` writes one; `tta run` does so automatically.

## Source
MLPerf submission rules, system description.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.kind == "log" or result.system is not None:
        return
    unreadable = [part for part in result.unreadable if part.path == result.system_path]
    for part in unreadable:
        yield Fault(str(part.path), None, printable(part.message))
    if not unreadable:
        place = result.system_path or result.path
        yield Fault(str(place), None, "there is no system description here")
