"""Which price book a result is priced by, and what ranks in it. Pure."""

from __future__ import annotations

from decimal import Decimal

from harness.cost.price_book import NoPrice, Price, PriceBook, PriceBooks, Quote
from harness.errors import printable
from harness.log import events as key
from harness.submission.result import Result


def book_of(result: Result, books: PriceBooks) -> PriceBook | NoPrice:
    """The book by which a result is priced: the one its logs name.

    Logs that name none are priced by the first book; a book that is not kept is replaced by no other.
    """
    named = {str(name) for log in result.runs if (name := log.field(key.TTA_RULES, key.PRICES_FIELD)) is not None}
    if not named:
        return books.first
    if len(named) > 1 or any(log.field(key.TTA_RULES, key.PRICES_FIELD) is None for log in result.runs):
        return NoPrice("book", "the logs do not name one price book")
    name = named.pop()
    found = books.named(name)
    return found or NoPrice("book", f"the logs name the price book {printable(name[:12])}…, which is not kept")


def quote_of(result: Result, books: PriceBooks) -> Quote | NoPrice:
    """What ranks: the on-demand list price of one node, by the book of the result."""
    book = book_of(result, books)
    if isinstance(book, NoPrice):
        return book
    return book.quote_of(result.system or {})


def price_of(result: Result, prices: PriceBooks | PriceBook | None) -> Price | None:
    """The list price of one node of the system that the result was made on; None where it is not known."""
    book = book_of(result, prices) if isinstance(prices, PriceBooks) else prices
    return book.price(result.system) if isinstance(book, PriceBook) and result.system is not None else None


def usd_per_hour(result: Result, books: PriceBooks) -> Decimal | None:
    """USD per hour of all nodes together; None where it is not known."""
    book = book_of(result, books)
    return None if isinstance(book, NoPrice) or result.system is None else book.usd_per_hour(result.system)
