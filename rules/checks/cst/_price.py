"""The finding on a named price that prices nothing, which CST002 to CST004 share."""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.files import line_of
from harness.cost.price_book import PRICE_KEY, NoPrice
from harness.findings import Fault
from harness.ruleset.model import RuleSet
from harness.scoring.cost import quote_of
from harness.submission.result import Result


def without_price(result: Result, ruleset: RuleSet, *kinds: str) -> Iterator[Fault]:
    """A finding on `tta_price_sku` if it gives no price, for a reason that is one of `kinds`."""
    found = None if ruleset.prices is None else quote_of(result, ruleset.prices)
    if isinstance(found, NoPrice) and found.kind in kinds:
        assert result.system_path is not None  # the description that names the price
        line = line_of(result.system_path, PRICE_KEY)
        yield Fault(str(result.system_path), line, f"the cost is null: {found.why}")
