"""A submission has no readable claim.

## What it does
Looks for submission.yaml in a folder that has a manifest; it must consist of flat `name: value` lines with exactly the
fields of a claim.

## Why it matters
The claim says whose result this is, in which division and under which rules.

## Example
`submission.yaml` has no `division`, or an unknown key `score`.

## Instead
`tta submit` writes it.

## Source
The layout: harness/submission/layout.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import CLAIM_NAME
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.kind != "submission" or result.claim is not None:
        return
    place = result.path / CLAIM_NAME
    unreadable = (part.message for part in result.unreadable if part.path == place)
    yield Fault(str(place), None, printable(next(unreadable, "the submission has no claim")))
