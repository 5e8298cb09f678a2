"""The logs do not name one price book that is kept, and was in force.

## What it does
Looks up the `prices_digest` of `tta_rules` among the organiser's price books. Every log of a result must name the same
one. Logs that name none are priced by the first book, and reported once there are several. A book that a newer one had
replaced before the day on which the first run began is reported, too, and one that is of a later day; not the first
book, which prices what is older than all.

## Why it matters
A result is priced for good by the book that was in force when it was made. Where that book is not kept, or the logs
disagree, the cost is null: another book's price would change an old result. And who may choose
among old books takes the cheapest.

## Example
The logs name the book 3f2a91bc77d0…; rules/v1/prices.yaml and rules/v1/prices/ have others.

## Instead
The organiser keeps every book once published. For a result: hand in the logs as they were written.

## Source
Cost: docs/cost.md; harness/scoring/cost.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from harness.cost.price_book import NoPrice
from harness.findings import Fault
from harness.log import events as key
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring.cost import book_of
from harness.submission.result import Result
from harness.submission.system import PRICE_KEY

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.prices is None or not result.runs or PRICE_KEY not in (result.system or {}):
        return
    first = result.runs[0]
    path, line = str(first.path), first.line_of(key.TTA_RULES)
    found = book_of(result, ruleset.prices)
    if isinstance(found, NoPrice):
        yield Fault(path, line, f"the cost is null: {found.why}")
    elif len(ruleset.prices.books) > 1 and first.field(key.TTA_RULES, key.PRICES_FIELD) is None:
        yield Fault(path, line, f"the logs name no price book; the first one, of {found.date}, is taken")
    elif (day := _began(result)) is not None:
        dates = [str(book.date) for book in ruleset.prices.books]
        newest = max((date for date in dates if date < day), default=min(dates))
        if not newest <= str(found.date) <= max(day, newest):
            message = f"the logs name the price book of {found.date}; on {day} that of {newest} was in force"
            yield Fault(path, line, message)


def _began(result: Result) -> str | None:
    """The day of the first run, by UTC; None for a time that is in no calendar."""
    try:
        first_ms = min(log.events[0].time_ms for log in result.runs if log.events)
        return datetime.fromtimestamp(first_ms / 1e3, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return None
