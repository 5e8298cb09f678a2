"""The billing declaration cannot be read.

## What it does
Reads `billing.yaml` as strictly as a rules file: known keys only, times in UTC, unsigned amounts, no node held twice at
the same moment, no stated price.

## Why it matters
It is a claim about money. If only part of it is read, it says something that no one declared.

## Example
`released: 2026-11-20 11:30`, which names no time zone.

## Instead
Write it as docs/explanation/cost.md describes, or leave the file out: it is never needed to rank.

## Source
Cost: docs/explanation/cost.md; harness/submission/billing.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import SubmissionError
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.billing import read_billing
from harness.submission.layout import BILLING_NAME
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if BILLING_NAME not in result.files:
        return
    path = result.path / BILLING_NAME
    try:
        read_billing(path)
    except SubmissionError as error:
        yield Fault(str(path), None, str(error).removeprefix(f"{path}: "))
