"""The named price has no date.

## What it does
Looks for an effective or retrieved date on the row that `tta_price_sku` names, and on each row that its price is summed
from.

## Why it matters
List prices change: one instance was cut from 98.32 to 55.04 US dollars an hour in one step. A price of unknown date
cannot be compared with another, so the cost is null.

## Example
`tta_price_sku` = "aws/m7i.large/us-east-1/on_demand", whose source is a catalogue without dates.

## Instead
Ask the organiser to fetch the row anew (scripts/refresh_prices.py), or name a dated one.

## Source
Cost: docs/explanation/cost.md.
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
    if isinstance(found, NoPrice) and found.kind == "undated":
        assert result.system_path is not None  # the description that names the price
        line = line_of(result.system_path, PRICE_KEY)
        yield Fault(str(result.system_path), line, f"the cost is null: {found.why}")
