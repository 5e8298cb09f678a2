"""The named price has no on-demand list price of a whole node.

## What it does
Looks at the row that `tta_price_sku` names; for a spot, reserved or prepaid row, at the on-demand row of the same
provider, SKU and region. A host without its accelerators needs their row, a row for one accelerator needs their number
in the system description, and every row needs the number of nodes.

## Why it matters
Results are ranked at on-demand list prices, the only prices that everyone can get. Spot prices change by the hour and
long reservations are negotiated. What the book cannot price on demand has no cost.

## Example
`tta_price_sku` = "aws/p5e.48xlarge/us-east-2/capacity_block", for which the book has no on-demand row.

## Instead
Name a machine that has an on-demand row, or none; what was actually paid belongs in billing.yaml.

## Source
Cost: docs/explanation/cost.md. The first draft of MLPerf v0.5 also said "no spot".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.cst._price import without_price

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    yield from without_price(result, ruleset, "unlisted", "uncounted")
