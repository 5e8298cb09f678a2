"""The price of an hour of a company's own machine, from a form that its owner fills in. Pure.

    provider: acme                    the row's id in a price book: provider/sku/region/on_prem
    sku: dgx-1
    region: basement
    currency: USD
    capital_cost: "250000"            one node with its share of switches and cables, without tax
    residual_fraction: "0.10"         its value at the end of its life, as a fraction of capital_cost
    lifetime_years: "5"               a year is 365 days of 24 h
    utilisation_fraction: "0.60"      the fraction of those hours in which it is used; below 1
    share_per_hour: "1.20"            administration, space, network: per hour in use
    kwh_price: "0.14"
    pue: "1.3"                        facility energy over IT energy
    pue_class: measured               measured, declared or default
    as_of: "2026-11-01"               the date of these figures
    source: "invoice 4711, tariff of 2026"
    accelerator: H100                 null if it has none
    num_accelerators: 8

hourly = capital_cost x (1 - residual_fraction) / (lifetime_h x utilisation_fraction) + share_per_hour. This does not
include energy: kWh x PUE x price per kWh is added separately if a run's energy was measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from harness.base.values import is_whole
from harness.cost.money import EXACT
from harness.cost.price_book import Electricity, Exchange, Price
from harness.errors import InputError, printable, unknown_name

HOURS_PER_YEAR = 365 * 24
PUE_CLASSES = ("measured", "declared", "default")
_QUANTUM = Decimal("0.000001")
_TEXTS = ("provider", "sku", "region", "currency", "pue_class", "as_of", "source")
# Intervals: a square bracket includes its end, a parenthesis does not.
_NUMBERS = {
    "capital_cost": "(0, 1000000000]",
    "residual_fraction": "[0, 1)",
    "lifetime_years": "(0, 30]",
    "utilisation_fraction": "(0, 1)",
    "share_per_hour": "[0, 1000000]",
    "kwh_price": "[0, 100]",
    "pue": "[1, 10]",
}
_KEYS = (*_TEXTS, *_NUMBERS, "accelerator", "num_accelerators", "exchange")
_EXCHANGE_KEYS = ("usd", "date", "source")
_NAME = r"[^\s/]+( [^\s/]+)*"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_FORMS = {
    **dict.fromkeys(("provider", "sku", "region"), _NAME),
    "currency": r"[A-Z]{3}",
    "pue_class": "|".join(PUE_CLASSES),
    **dict.fromkeys(("as_of", "date"), _DATE),
    "source": r"\S.*",
}


@dataclass(frozen=True, slots=True)
class Ownership:
    """The form. Money is in `currency`; exchange is its dated rate, None for US dollars."""

    provider: str
    sku: str
    region: str
    currency: str
    capital_cost: Decimal
    residual_fraction: Decimal
    lifetime_years: Decimal
    utilisation_fraction: Decimal
    share_per_hour: Decimal
    kwh_price: Decimal
    pue: Decimal
    pue_class: str
    as_of: str
    source: str
    accelerator: str | None
    num_accelerators: int | None
    exchange: Exchange | None

    @property
    def hours_in_use(self) -> Decimal:
        """Hours of its life in which it is used."""
        return EXACT.multiply(EXACT.multiply(self.lifetime_years, Decimal(HOURS_PER_YEAR)), self.utilisation_fraction)

    @property
    def depreciation(self) -> Decimal:
        """Its loss of value, in `currency`."""
        return EXACT.multiply(self.capital_cost, 1 - self.residual_fraction)

    @property
    def hourly(self) -> Decimal:
        """The price of an hour in use, without energy, in `currency`; not rounded."""
        return EXACT.add(EXACT.divide(self.depreciation, self.hours_in_use), self.share_per_hour)

    @property
    def usd_rate(self) -> Decimal:
        return Decimal(1) if self.exchange is None else self.exchange.usd

    def price(self) -> Price:
        """Return the row for a price book, rounded once, to a millionth of the currency."""
        hourly = self.hourly.quantize(_QUANTUM, ROUND_HALF_UP, EXACT)
        return Price(
            provider=self.provider,
            sku=self.sku,
            region=self.region,
            purchase="on_prem",
            usd_per_hour=EXACT.multiply(hourly, self.usd_rate),
            effective=None,
            retrieved=self.as_of,
            source=self.source,
            confidence="B",  # derived
            price=hourly,
            currency=self.currency,
            includes_gpu=bool(self.num_accelerators),
            accelerator=self.accelerator,
            num_accelerators=self.num_accelerators,
            granularity_s=1,
            minimum_s=0,
            electricity=Electricity(EXACT.multiply(self.kwh_price, self.usd_rate), self.pue, self.kwh_price),
        )

    def worked(self) -> list[str]:
        """Return the arithmetic, one step per line."""
        unit, hours = self.currency, f"{self.hours_in_use.normalize():f}"
        lines = [
            f"loss of value   {self.capital_cost:f} x (1 - {self.residual_fraction:f}) = {self.depreciation:f} {unit}",
            f"hours in use    {self.lifetime_years:f} a x {HOURS_PER_YEAR} h x {self.utilisation_fraction:f} "
            f"= {hours} h",
            f"capital         {self.depreciation:f} / {hours} = "
            f"{EXACT.divide(self.depreciation, self.hours_in_use):.6f} {unit} per hour",
            f"share           {self.share_per_hour:f} {unit} per hour",
            f"hourly          {self.hourly:.6f} {unit} per hour in use, without energy",
        ]
        if self.exchange is not None:
            lines.append(
                f"in US dollars   x {self.exchange.usd:f} ({self.exchange.date}, {self.exchange.source}) = "
                f"{self.price().usd_per_hour:.6f} USD per hour"
            )
        per_kwh = EXACT.multiply(self.kwh_price, self.pue).normalize()
        return [
            *lines,
            f"energy, extra   {self.kwh_price:f} x PUE {self.pue:f} ({self.pue_class}) = {per_kwh:f} {unit} per "
            "measured kWh; nothing if energy was not measured",
        ]


def read_ownership(content: Mapping[str, Any], place: str) -> Ownership:
    """Return the form in a file's content.

    Raises:
        InputError: a key is unknown or missing, or a value is out of range; names `place`.
    """
    _refuse_unknown(content, _KEYS, place)
    texts: dict[str, Any] = {name: _text(content, name, place) for name in _TEXTS}
    numbers: dict[str, Any] = {name: _number(content, name, bounds, place) for name, bounds in _NUMBERS.items()}
    count = content.get("num_accelerators")
    if count is not None and not (is_whole(count) and 0 <= count <= 10_000):
        raise InputError(
            f"{place}: num_accelerators is {printable(count)!r}; it must be a whole number from 0 up, or null"
        )
    accelerator = content.get("accelerator")
    if not isinstance(accelerator, str | None):
        raise InputError(f"{place}: accelerator is {printable(accelerator)!r}; it must be a text, or null")
    exchange, rate = None, content.get("exchange")
    if (texts["currency"] == "USD") is not (rate is None):
        raise InputError(
            f"{place}: exchange gives US dollars for one {texts['currency']}, with date and source; it must be there "
            "if and only if the currency is not USD"
        )
    if rate is not None:
        where = f"{place}: exchange"
        if not isinstance(rate, dict):
            raise InputError(f"{where}: must be a mapping with {', '.join(_EXCHANGE_KEYS)}")
        _refuse_unknown(rate, _EXCHANGE_KEYS, where)
        usd = _number(rate, "usd", "(0, 1000000]", where)
        exchange = Exchange(texts["currency"], usd, _text(rate, "date", where), _text(rate, "source", where))
    return Ownership(**texts, **numbers, accelerator=accelerator, num_accelerators=count, exchange=exchange)


def _refuse_unknown(content: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    for name in content:
        if name not in known:
            raise InputError(f"{place}: {unknown_name('key', str(name), known)}")


def _text(content: Mapping[str, Any], name: str, place: str) -> str:
    value, form = content.get(name), _FORMS[name]
    if value is None:
        raise InputError(f"{place}: {name!r} is missing")
    if not isinstance(value, str) or not re.fullmatch(form, value):
        raise InputError(f"{place}: {name} is {printable(value)!r}; it must match {form}")
    if form == _DATE:
        try:
            date.fromisoformat(value)
        except ValueError:
            raise InputError(f"{place}: {name} is {value!r}, which is not a date") from None
    return value


def _number(content: Mapping[str, Any], name: str, bounds: str, place: str) -> Decimal:
    value = content.get(name)
    if value is None:
        raise InputError(f"{place}: {name!r} is missing")
    if not (isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", value)):
        raise InputError(f"{place}: {name} is {printable(value)!r}; it must be a number, as a text in quotes")
    number = Decimal(value)
    low, high = (Decimal(bound) for bound in bounds[1:-1].split(", "))
    above = number > low if bounds[0] == "(" else number >= low
    below = number < high if bounds[-1] == ")" else number <= high
    if not (above and below):
        hint = "; no machine is used in every hour of its life" if name == "utilisation_fraction" else ""
        raise InputError(f"{place}: {name} is {value}; it must lie in {bounds}{hint}")
    return number
