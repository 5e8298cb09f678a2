"""The named price is not in the price book.

## What it does
Looks up the `tta_price_sku` of the system description in the price book that the logs name.

## Why it matters
Cost is derived from the organiser's dated list prices. A name that is not among them has no price: the cost is null,
and no stated number or near match replaces it.

## Example
`tta_price_sku` = "aws/p5.48xlarge/us-east-1/on-demand", where the book has aws/p5.48xlarge/us-east-1/on_demand.

## Instead
Name a row that `tta prices search` finds, ask the organiser to add one, or name none.

## Source
Cost: docs/explanation/cost.md. DAWNBench let submitters state a price, and reviewers had to ask where it came from.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.cst._price import without_price

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    yield from without_price(result, ruleset, "unknown")
