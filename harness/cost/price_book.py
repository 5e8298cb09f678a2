"""Dated list prices and the arithmetic on them. Pure; `harness.cost.price_file` reads a book.

A system description may name its price by id in `tta_price_sku`; prices are never typed in. An unknown value is None.
Ranking is by the on-demand list price; a spot, reserved or prepaid price is shown next to it for information.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal

from harness.base.values import positive_int
from harness.cost.money import EXACT, cost_usd, rounded
from harness.errors import RulesError, UsageError, printable, unknown_name

PRICE_KEY = "tta_price_sku"  # in a system description: the id of its list price
PURCHASES = ("on_demand", "spot", "reserved_1y", "reserved_3y", "capacity_block", "on_prem")
RANKED_PURCHASES = ("on_demand", "on_prem")  # an owned machine has no other list price
UNITS = ("instance-h", "gpu-h", "host-h", "gb-h", "gb")
TIME_UNITS = ("instance-h", "gpu-h", "host-h")
CONFIDENCES = ("A", "B", "C")

Missing = Literal["unnamed", "unknown", "unlisted", "undated", "uncounted", "book"]


@dataclass(frozen=True, slots=True)
class Electricity:
    """The price of a kilowatt-hour at the site of a company's own machine.

    pue: facility energy over IT energy, at least 1. per_kwh: as in the source, in the row's currency.
    """

    usd_per_kwh: Decimal
    pue: Decimal
    per_kwh: Decimal


@dataclass(frozen=True, slots=True)
class Price:
    """One row of a price book: the price of a unit.

    purchase: one of PURCHASES. usd_per_hour: US dollars per unit (an hour, or for storage and traffic one of UNITS).
    effective: the day from which the price holds, as the source states it; None if it does not. retrieved: the day on
    which the source had the price; None if that is not known. confidence: "A" dated and transcribed from the
    provider's page or interface, "B" undated or derived, "C" a constant in someone's program.
    unit: one of UNITS; "gpu-h" is one accelerator for an hour, "host-h" a node without its accelerators.
    price, currency: as in the source; a price of None means `usd_per_hour`.
    accelerator, num_accelerators: in one unit; None is unknown, 0 is none.
    gpu_sku: for a host without its accelerators, the row of the same provider, region and purchase that prices one.
    granularity_s, minimum_s: how time is billed; None is unknown.
    """

    provider: str
    sku: str
    region: str
    purchase: str
    usd_per_hour: Decimal
    effective: str | None
    retrieved: str | None
    source: str
    confidence: str
    unit: str = "instance-h"
    price: Decimal | None = None
    currency: str = "USD"
    includes_gpu: bool = True
    includes_host: bool = True
    accelerator: str | None = None
    num_accelerators: int | None = None
    gpu_sku: str | None = None
    granularity_s: int | None = None
    minimum_s: int | None = None
    electricity: Electricity | None = None

    @property
    def id(self) -> str:
        return f"{self.provider}/{self.sku}/{self.region}/{self.purchase}"

    @property
    def as_of(self) -> str | None:
        """The day for which the price is known; None if it has no date."""
        return self.retrieved or self.effective


@dataclass(frozen=True, slots=True)
class Exchange:
    """A rate: US dollars for one unit of a currency, with its day and source."""

    currency: str
    usd: Decimal
    date: str
    source: str


@dataclass(frozen=True, slots=True)
class NoPrice:
    """The reason why there is no price, as a kind and as a sentence (`why`).

    kind: "unnamed" (the system names no price), "unknown" (no such row), "unlisted" (no on-demand price of a whole
    node), "undated", "uncounted" (the number of nodes or accelerators is unknown), "book" (no such book).
    """

    kind: Missing
    why: str


@dataclass(frozen=True, slots=True)
class Quote:
    """The price of an hour of one node. row: as named. listed: the one that ranks. parts: the rows that are summed."""

    row: Price
    listed: Price
    parts: tuple[Price, ...]
    usd_per_hour: Decimal


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a duration on a system, compute only: no storage, traffic, licences or failed attempts.

    price_digest: SHA-256 of the price book, with which an old cost can be recomputed.
    as_of: the day for which the price is known.
    """

    usd: Decimal
    usd_per_hour: Decimal
    price_id: str
    price_digest: str
    as_of: str | None


@dataclass(frozen=True, slots=True)
class PriceBook:
    """Prices by id, and the SHA-256 of their file. date: the day from which the book is in force.

    Raises:
        RulesError: two prices have the same id, or a price of time is not above zero.
    """

    prices: tuple[Price, ...]
    digest: str
    date: str | None = None
    exchange: tuple[Exchange, ...] = ()
    _by_id: dict[str, Price] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for price in self.prices:
            if price.id in self._by_id:
                raise RulesError(f"{price.id!r} occurs twice")
            if price.usd_per_hour < 0 or (price.unit in TIME_UNITS and price.usd_per_hour == 0):
                raise RulesError(
                    f"{price.id!r} costs {price.usd_per_hour} USD; a price is not negative, and time not free"
                )
            self._by_id[price.id] = price

    def row(self, name: object) -> Price | None:
        """Return the row with that id; None if there is none."""
        return self._by_id.get(name) if isinstance(name, str) else None

    def quote(self, name: object, gpus_per_node: int | None = None, *, is_ranked: bool = True) -> Quote | NoPrice:
        """Return the price of an hour of one node, by the row `name`.

        is_ranked: whether it must be a dated list price; False takes the row itself, for an estimate or to show what
            was paid.
        gpus_per_node: needed if the row is for one accelerator.
        """
        row = self.row(name)
        if row is None:
            shown = printable(name, 120)
            return NoPrice("unknown", unknown_name("price", shown, self._by_id) if isinstance(name, str) else shown)
        listed: Price | None = row
        if is_ranked and row.purchase not in RANKED_PURCHASES:
            listed = self.row(f"{row.provider}/{row.sku}/{row.region}/on_demand")
        if listed is None:
            return NoPrice("unlisted", f"{row.id!r} is not a list price, and the book has no on-demand price for it")
        if listed.unit not in TIME_UNITS or not listed.includes_host:
            return NoPrice("unlisted", f"{listed.id!r} is not the price of a whole node")
        parts: tuple[Price, ...] = (listed,)
        counts: tuple[int, ...] = (1,)
        if listed.unit == "gpu-h":
            if gpus_per_node is None or gpus_per_node < 1:
                return NoPrice(
                    "uncounted", f"{listed.id!r} is for one accelerator, and the number per node is not known"
                )
            counts = (gpus_per_node,)
        elif listed.gpu_sku is not None:
            gpu = self.row(f"{listed.provider}/{listed.gpu_sku}/{listed.region}/{listed.purchase}")
            if gpu is None or listed.num_accelerators is None:
                return NoPrice("unlisted", f"{listed.id!r} is for a host without its accelerators, which have no price")
            parts, counts = (listed, gpu), (1, listed.num_accelerators)
        undated = [part.id for part in parts if part.as_of is None]
        if is_ranked and undated:
            return NoPrice("undated", f"{undated[0]!r} has no date")
        usd_per_hour = Decimal(0)
        for part, count in zip(parts, counts, strict=True):
            usd_per_hour = EXACT.add(usd_per_hour, EXACT.multiply(part.usd_per_hour, Decimal(count)))
        return Quote(row, listed, parts, usd_per_hour)

    def quote_of(self, system: Mapping[str, Any], *, is_ranked: bool = True) -> Quote | NoPrice:
        """Return the price of an hour of one node of the system; see `quote`."""
        name = system.get(PRICE_KEY)
        if name is None:
            return NoPrice("unnamed", f"the system description has no {PRICE_KEY}")
        found = self.quote(name, positive_int(system.get("accelerators_per_node")), is_ranked=is_ranked)
        if isinstance(found, Quote) and positive_int(system.get("number_of_nodes")) is None:
            return NoPrice("uncounted", f"number_of_nodes is {printable(system.get('number_of_nodes'), 60)!r}")
        return found

    def price(self, system: Mapping[str, Any]) -> Price | None:
        """Return the list price of one node of the system; None if it names none or an unknown one."""
        found = self.quote_of(system)
        return None if isinstance(found, NoPrice) else replace(found.listed, usd_per_hour=found.usd_per_hour)

    def usd_per_hour(self, system: Mapping[str, Any]) -> Decimal | None:
        """Return the USD per hour of all nodes of the system; None if its price or number of nodes is not known."""
        if (price := self.price(system)) is None:
            return None
        nodes = positive_int(system.get("number_of_nodes"))
        assert nodes is not None  # otherwise there is no quote
        return EXACT.multiply(price.usd_per_hour, Decimal(nodes))

    def cost(self, system: Mapping[str, Any], seconds: float) -> Cost | None:
        """Return the cost of `seconds` on the system; None if its price is not known.

        Raises:
            InputError: `seconds` is not from 0 to MAX_SECONDS.
        """
        price, usd_per_hour = self.price(system), self.usd_per_hour(system)
        if price is None:
            return None
        assert usd_per_hour is not None
        return Cost(cost_usd(seconds, usd_per_hour), usd_per_hour, price.id, self.digest, price.as_of)


@dataclass(frozen=True, slots=True)
class PriceBooks:
    """The organiser's books, oldest first. Books are never removed, so that a result keeps its prices.

    Raises:
        RulesError: there is none, one has no date, or two have the same date.
    """

    books: tuple[PriceBook, ...]

    def __post_init__(self) -> None:
        dates = [book.date for book in self.books]
        if not dates or None in dates or len(set(dates)) < len(dates):
            raise RulesError(f"each price book needs a date of its own; these have {dates}")
        object.__setattr__(self, "books", tuple(sorted(self.books, key=lambda book: book.date or "")))

    @property
    def current(self) -> PriceBook:
        """The newest book, which a run that begins now names in its log."""
        return self.books[-1]

    @property
    def first(self) -> PriceBook:
        """The oldest book, which prices the logs that do not name one."""
        return self.books[0]

    @property
    def digest(self) -> str:
        """The digest of the newest book."""
        return self.current.digest

    def matching(self, prefix: str) -> PriceBook:
        """Return the one book whose digest begins with `prefix` or whose date it is.

        Raises:
            UsageError: there is none, or more than one.
        """
        found = [book for book in self.books if (prefix and book.digest.startswith(prefix)) or book.date == prefix]
        if len(found) != 1:
            there = ", ".join(f"{book.digest[:12]} ({book.date})" for book in self.books)
            raise UsageError(
                f"{printable(prefix)!r} is neither a file nor the digest or date of one book; there are: {there}"
            )
        return found[0]

    def named(self, digest: object) -> PriceBook | None:
        """Return the book with that digest; None if there is none."""
        return next((book for book in self.books if book.digest == digest), None)


def is_accelerator(priced: str, described: str) -> bool:
    """Whether the first word of a row's accelerator ("A100 80 GB") is a word of the name in a system description."""
    words = re.findall(r"[a-z0-9]+", described.lower())
    return re.findall(r"[a-z0-9]+", priced.lower())[:1] in ([word] for word in words)


def electricity_usd(price: Price, joules: float | None, source: str) -> Decimal | None:
    """Return the cost of a run's energy on a company's own machine: kWh x PUE x price per kWh, rounded once.

    None unless the energy was measured, and None for rented machines, whose price includes it.
    """
    if price.purchase != "on_prem" or price.electricity is None or joules is None or source != "measured":
        return None
    kwh = EXACT.divide(Decimal(str(joules)), Decimal(3_600_000))
    return rounded(EXACT.multiply(EXACT.multiply(kwh, price.electricity.pue), price.electricity.usd_per_kwh))
