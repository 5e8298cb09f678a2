"""The named price is for a machine with different accelerators.

## What it does
Compares the accelerators of the row that `tta_price_sku` names, their number per node and their name, with those of the
system description. A row that does not state them is not compared.

## Why it matters
The price is not chosen freely, but the name of the row is: an eight-accelerator node at the price of a two-core machine
would win every ranking by cost.

## Example
accelerators_per_node = 8 with `tta_price_sku` = "azure/Standard_NC24ads_A100_v4/eastus/on_demand", which has one.

## Instead
Name the row of the machine that ran.

## Source
Cost: docs/explanation/cost.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.files import line_of
from harness.cost.price_book import PRICE_KEY, Quote, is_accelerator
from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring.cost import quote_of
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.prices is None:
        return
    quote = quote_of(result, ruleset.prices)
    if not isinstance(quote, Quote):
        return
    assert result.system is not None
    assert result.system_path is not None  # the description that names the price
    line, row = line_of(result.system_path, PRICE_KEY), quote.listed
    has, model = result.system.get("accelerators_per_node"), result.system.get("accelerator_model_name")
    number = None if row.unit == "gpu-h" else row.num_accelerators
    if number is not None and str(has) != str(number):
        yield Fault(
            str(result.system_path),
            line,
            f"{row.id!r} has {number} accelerators per node; the description has {printable(has, 40)!r}",
            {"priced": number, "described": printable(has)},
        )
    elif row.accelerator is not None and not is_accelerator(row.accelerator, printable(model)):
        yield Fault(
            str(result.system_path),
            line,
            f"{row.id!r} has {row.accelerator}; the description has {printable(model, 80)!r}",
        )
