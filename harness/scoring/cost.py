"""What a result costs: its price book, the list price that ranks, and the bill of the declared use.

The ranked cost is list price times time. A bill is what the submitter declares to have used, at list prices: shown for
information, never ranked.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from harness.cost.money import EXACT, billed_seconds, rounded
from harness.cost.price_book import NoPrice, Price, PriceBook, PriceBooks, Quote
from harness.errors import SubmissionError, printable
from harness.log import keys
from harness.submission.billing import Billing, read_billing
from harness.submission.layout import BILLING_NAME
from harness.submission.result import Result


def book_of(result: Result, books: PriceBooks) -> PriceBook | NoPrice:
    """The price book of a result: the one that its logs name.

    Logs that name none use the first book. If the named book is not kept, no other replaces it.
    """
    named = {str(name) for log in result.runs if (name := log.field(keys.TTA_RULES, keys.PRICES_FIELD)) is not None}
    if not named:
        return books.first
    if len(named) > 1 or any(log.field(keys.TTA_RULES, keys.PRICES_FIELD) is None for log in result.runs):
        return NoPrice("book", "the logs do not name one price book")
    name = named.pop()
    found = books.named(name)
    return found or NoPrice("book", f"the logs name the price book {printable(name[:12])}…, which is not kept")


def quote_of(result: Result, books: PriceBooks) -> Quote | NoPrice:
    """The price that ranks: the on-demand list price of one node, from the result's price book."""
    book = book_of(result, books)
    if isinstance(book, NoPrice):
        return book
    return book.quote_of(result.system or {})


def price_of(result: Result, prices: PriceBooks | PriceBook | None) -> Price | None:
    """The list price of one node of the result's system; None where it is not known."""
    book = book_of(result, prices) if isinstance(prices, PriceBooks) else prices
    return book.price(result.system) if isinstance(book, PriceBook) and result.system is not None else None


def usd_per_hour(result: Result, books: PriceBooks) -> Decimal | None:
    """US dollars per hour of all nodes together; None where that is not known."""
    book = book_of(result, books)
    return None if isinstance(book, NoPrice) or result.system is None else book.usd_per_hour(result.system)


@dataclass(frozen=True, slots=True)
class Bill:
    """The declared use at the organiser's prices, in US dollars.

    usd: nodes at the on-demand list price, with the billing granularity and minimum of each, storage and traffic; None
    where a price is not known, and `why_not` says which. compute_usd: the nodes alone. seconds: of all nodes, as
    billed. paid_usd: the nodes at the price of `purchase`, where the book has it: for information, never ranked.
    """

    declared: Billing
    usd: Decimal | None
    compute_usd: Decimal | None
    paid_usd: Decimal | None
    seconds: Decimal | None
    price_id: str | None
    price_digest: str | None
    why_not: str | None = None


def bill_of(result: Result, books: PriceBooks | None) -> Bill | None:
    """The cost of a result's declared use; None where none is declared, or the declaration cannot be read."""
    if BILLING_NAME not in result.files:
        return None
    try:
        declared = read_billing(result.path / BILLING_NAME)
    except SubmissionError:
        return None  # CST006 reports what is wrong with it
    book = NoPrice("book", "the ruleset has no price book") if books is None else book_of(result, books)
    if isinstance(book, NoPrice):
        return Bill(declared, None, None, None, None, None, None, book.why)
    quote = book.quote_of(result.system or {})
    if isinstance(quote, NoPrice):
        return Bill(declared, None, None, None, None, None, book.digest, quote.why)
    return _bill(declared, book, quote)


def _bill(declared: Billing, book: PriceBook, quote: Quote) -> Bill:
    compute, seconds = _compute(declared, quote)
    paid = None
    if declared.purchase != quote.listed.purchase:
        row = f"{quote.row.provider}/{quote.row.sku}/{quote.row.region}/{declared.purchase}"
        bought = book.quote(row, _gpus_of(quote), is_ranked=False)
        paid = _compute(declared, bought)[0] if isinstance(bought, Quote) else None
    if compute is None:
        why = f"the billing granularity of {quote.listed.id!r} is not known"
        return Bill(declared, None, None, None, None, quote.listed.id, book.digest, why)
    total, why_not = compute, None
    for item in declared.quantities:
        found = book.row(item.price)
        if found is None or found.unit != item.unit or found.as_of is None:
            why_not = f"{printable(item.price, 120)!r} is not a dated price per {item.unit}"
            break
        total = EXACT.add(total, EXACT.multiply(item.amount, found.usd_per_hour))
    return Bill(
        declared=declared,
        usd=None if why_not else rounded(total),
        compute_usd=rounded(compute),
        paid_usd=None if paid is None else rounded(paid),
        seconds=seconds,
        price_id=quote.listed.id,
        price_digest=book.digest,
        why_not=why_not,
    )


def _gpus_of(quote: Quote) -> int | None:
    """How many accelerators a node has; where the listed price is per accelerator, from the quote of the node."""
    is_per_gpu = quote.listed.unit == "gpu-h"
    return int(quote.usd_per_hour / quote.listed.usd_per_hour) if is_per_gpu else quote.listed.num_accelerators


def _compute(declared: Billing, quote: Quote) -> tuple[Decimal | None, Decimal | None]:
    """US dollars, not rounded, and billed seconds of all attempts; None where the row does not say how it is billed."""
    granularity_s, minimum_s = quote.listed.granularity_s, quote.listed.minimum_s
    if granularity_s is None or minimum_s is None:
        return None, None
    seconds = Decimal(0)
    for attempt in declared.attempts:
        seconds = EXACT.add(seconds, billed_seconds(attempt.seconds, granularity_s, minimum_s))
    return EXACT.divide(EXACT.multiply(seconds, quote.usd_per_hour), Decimal(3600)), seconds
