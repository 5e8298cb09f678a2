"""Dated list prices and the arithmetic on them. Pure; `harness.loader.load_prices` reads the book.

A system description may name its price by id in `tta_price_sku`; nobody types a price. Unknown is None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from harness.errors import InputError, RulesError, printable, unknown_name

PRICE_KEY = "tta_price_sku"
USD_QUANTUM = Decimal("0.000001")  # a mini run of ten seconds on two cores costs some 0.0003 USD
PURCHASES = ("on_demand", "reserved", "capacity_block", "on_prem")
CONFIDENCES = ("A", "B", "C")
MAX_SECONDS = 1e12
_EXACT = Context(prec=60)


@dataclass(frozen=True, slots=True)
class Price:
    """What one node costs for an hour.

    purchase: one of PURCHASES; a spot price is no list price. effective: the day since when it holds, as the
    source says; None where it does not. retrieved: the day on which the source had it; None where it bears no date.
    confidence: "A" dated and transcribed from the provider's page or interface, "B" undated or derived,
    "C" a constant in somebody's program.
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

    @property
    def id(self) -> str:
        return f"{self.provider}/{self.sku}/{self.region}/{self.purchase}"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a time costs on a system, compute only: no storage, traffic, licences or failed attempts.

    price_digest: SHA-256 of the price book, by which an old cost can be computed again.
    as_of: the day on which the price's source had it; None where it bears no date.
    """

    usd: Decimal
    usd_per_hour: Decimal
    price_id: str
    price_digest: str
    as_of: str | None


@dataclass(frozen=True, slots=True)
class PriceBook:
    """Prices by id, and the SHA-256 of the file they stand in.

    Raises:
        RulesError: two prices have the same id, or a price is not above zero.
    """

    prices: tuple[Price, ...]
    digest: str
    _by_id: dict[str, Price] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for price in self.prices:
            if price.id in self._by_id:
                raise RulesError(f"{price.id!r} stands twice")
            if not price.usd_per_hour > 0:
                raise RulesError(f"{price.id!r} costs {price.usd_per_hour} USD an hour; what is free has no list price")
            self._by_id[price.id] = price

    def price(self, system: Mapping[str, Any]) -> Price | None:
        """The price that the system description names; None if it names none, or one that is not in the book."""
        name = system.get(PRICE_KEY)
        return self._by_id.get(name) if isinstance(name, str) else None

    def usd_per_hour(self, system: Mapping[str, Any]) -> Decimal | None:
        """USD per hour of all nodes of the system together; None if its price or number of nodes is not known."""
        price, nodes = self.price(system), _whole_number(system.get("number_of_nodes"))
        return None if price is None or nodes is None else _EXACT.multiply(price.usd_per_hour, Decimal(nodes))

    def cost(self, system: Mapping[str, Any], seconds: float) -> Cost | None:
        """What `seconds` cost on the system; None if its price is not known.

        Raises:
            InputError: `seconds` is not from 0 to MAX_SECONDS.
        """
        price, usd_per_hour = self.price(system), self.usd_per_hour(system)
        if price is None or usd_per_hour is None:
            return None
        usd = cost_usd(seconds, usd_per_hour)
        return Cost(usd, usd_per_hour, price.id, self.digest, price.retrieved)


def cost_usd(seconds: float, usd_per_hour: Decimal) -> Decimal:
    """USD for `seconds`, billed to the second's fraction, without a provider's minimum.

    Decimal throughout; rounded once, at the end, to a millionth of a dollar, halves away from zero. The
    seconds enter by their shortest decimal form: 0.1 s is exactly a tenth.

    Raises:
        InputError: `seconds` is not from 0 to MAX_SECONDS, or the price is negative or not finite.
    """
    if not 0 <= seconds <= MAX_SECONDS:  # not a number is neither
        raise InputError(f"cost: {seconds} s is no duration")
    if not usd_per_hour.is_finite() or usd_per_hour < 0:
        raise InputError(f"cost: {usd_per_hour} USD an hour is no price")
    exact = _EXACT.divide(_EXACT.multiply(Decimal(str(seconds)), usd_per_hour), Decimal(3600))
    return exact.quantize(USD_QUANTUM, rounding=ROUND_HALF_UP, context=_EXACT)


def _whole_number(value: object) -> int | None:
    """A positive whole number, written as number or text (MLPerf writes texts); None if it is none."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 9:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if value > 0 else None


# What every value of a price must look like. An id has no slash inside a part and no stray white space.
_NAME = r"[^\s/]+( [^\s/]+)*"
_PRICE_FORMS = {
    **dict.fromkeys(("provider", "sku", "region"), _NAME),
    "purchase": "|".join(PURCHASES),
    "usd_per_hour": r"[0-9]{1,7}(\.[0-9]{1,9})?",
    **dict.fromkeys(("effective", "retrieved"), r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "source": r"\S.*",
    "confidence": "|".join(CONFIDENCES),
}


def price_of(row: object, place: str) -> Price:
    """The price in one row of a price book's file.

    Raises:
        RulesError: an unknown or missing key, or a value that is not a text of the right form; names `place`.
    """
    if not isinstance(row, dict):
        raise RulesError(f"{place}: must be a mapping")
    for name in row:
        if name not in _PRICE_FORMS:
            raise RulesError(f"{place}: {unknown_name('key', str(name), _PRICE_FORMS)}")
    for name, form in _PRICE_FORMS.items():
        value = row.get(name)
        if name not in row or (value is None and name not in ("effective", "retrieved")):
            raise RulesError(f"{place}: {name!r} is missing")
        if value is not None and not (isinstance(value, str) and re.fullmatch(form, value)):
            hint = "; a price is a text in quotes, so that 0.1 is a tenth" if isinstance(value, float | int) else ""
            raise RulesError(f"{place}: {name} is {printable(value)!r}; it must match {form}{hint}")
    return Price(**{**row, "usd_per_hour": Decimal(row["usd_per_hour"])})
