"""A cost is stated instead of derived.

## What it does
Looks for amounts of money in the keys of the logs and in the system description: names that contain usd, eur, cost,
price or dollar. A `tta_price_sku`, which names a row of the dated price book, is allowed.

## Why it matters
Cost is time on a machine at a published rate, computed by the leaderboard. An amount that a submitter writes down is
only what they would like to have paid.

## Example
`cost_usd` = 0.05 in the system description.

## Instead
Name a row of rules/v1/prices.yaml in the system description, or none.

## Source
Cost: harness/cost/price_book.py. MLPerf removed its cost metric because cost varies by region and customer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.base.files import line_of
from harness.cost.price_book import PRICE_KEY
from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import system as system_fields
from harness.submission.result import Result

SCOPE = "result"
_MONEY = re.compile(r"(?i)(.*_)?(usd|costs?|prices?|dollars?|eur)(_.*)?")


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for log in result.runs:
        for name in log.counts:
            if _MONEY.fullmatch(name):
                yield Fault(str(log.path), log.line_of(name), f"{printable(name, 60)} is a cost; costs must be derived")
    for name in result.system or {}:
        if _MONEY.fullmatch(name) and name not in system_fields.OPTIONAL_FIELDS:
            assert result.system_path is not None  # where the description was read
            yield Fault(
                str(result.system_path),
                line_of(result.system_path, name),
                f"{printable(name, 60)} is a cost; costs must be derived from {PRICE_KEY}",
            )
