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

from harness.base.files import line_of
from harness.cost.price_book import PRICE_KEY, NoPrice
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring.cost import quote_of
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.prices is None:
        return
    found = quote_of(result, ruleset.prices)
    if isinstance(found, NoPrice) and found.kind == "unknown":
        assert result.system_path is not None  # the description that names the price
        line = line_of(result.system_path, PRICE_KEY)
        yield Fault(str(result.system_path), line, f"the cost is null: {found.why}")
