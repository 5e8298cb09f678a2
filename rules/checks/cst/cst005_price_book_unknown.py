"""The logs do not name a single known price book that was in force.

## What it does
Looks up the `prices_digest` of `tta_rules` among the organiser's price books. Every log of a result must name the same
one. Logs that name none are priced by the first book, which is reported if there are several books. Also reported is a
book that had been replaced by a newer one before the day on which the first run began, or that is dated later than that
day. The first book is exempt from the latter, since it prices everything older than itself.

## Why it matters
A result is always priced by the book that was in force when it was made. If that book is not kept, or the logs
disagree, the cost is null: the prices of another book would change an old result. And a submitter who could choose
among old books would choose the cheapest.

## Example
The logs name the book 3f2a91bc77d0…, but rules/v1/prices.yaml and rules/v1/prices/ have other books.

## Instead
The organiser keeps every book once it is published. For a result: submit the logs as they were written.

## Source
Cost: docs/explanation/cost.md; harness/scoring/cost.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from harness.cost.price_book import PRICE_KEY, NoPrice
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring.cost import book_of
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.prices is None or not result.runs or PRICE_KEY not in (result.system or {}):
        return
    first = result.runs[0]
    path, line = str(first.path), first.line_of(keys.TTA_RULES)
    found = book_of(result, ruleset.prices)
    if isinstance(found, NoPrice):
        yield Fault(path, line, f"the cost is null: {found.why}")
    elif len(ruleset.prices.books) > 1 and first.field(keys.TTA_RULES, keys.PRICES_FIELD) is None:
        yield Fault(path, line, f"the logs name no price book; the first one, of {found.date}, is used")
    elif (day := _began(result)) is not None:
        dates = [str(book.date) for book in ruleset.prices.books]
        newest = max((date for date in dates if date < day), default=min(dates))
        if not newest <= str(found.date) <= max(day, newest):
            message = f"the logs name the price book of {found.date}; on {day} the book of {newest} was in force"
            yield Fault(path, line, message)


def _began(result: Result) -> str | None:
    """The UTC day on which the first run began; None for a time outside the calendar."""
    try:
        first_ms = min(log.events[0].time_ms for log in result.runs if log.events)
        return datetime.fromtimestamp(first_ms / 1e3, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return None
