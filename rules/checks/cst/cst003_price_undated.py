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
Ask the organiser to fetch the row again (`tta prices refresh`), or name a dated one.

## Source
Cost: docs/explanation/cost.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.cst._price import without_price

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    yield from without_price(result, ruleset, "undated")
