"""The file of a price book: the form of every value, and how a new book is written. Pure: mappings and texts.

date: "2026-11-21"                  the day from which the book is in force
exchange:                           only if a row is not in US dollars
  - {currency: EUR, usd: "1.08", date: "2026-11-20", source: "..."}
prices:
  - {provider: aws, sku: p5.48xlarge, region: us-east-1, purchase: on_demand, price: "55.04", currency: USD, ...}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from harness.base.values import is_whole
from harness.cost.money import EXACT
from harness.cost.price_book import CONFIDENCES, PURCHASES, UNITS, Electricity, Exchange, Price, PriceBook, PriceBooks
from harness.errors import RulesError, printable, unknown_name

# The parts of an id have no slash and no stray white space.
_NAME = r"[^\s/]+( [^\s/]+)*"
_AMOUNT = r"[0-9]{1,9}(\.[0-9]{1,12})?"
_TEXT = r"\S.*"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CURRENCY = r"[A-Z]{3}"
_ROW_FORMS = {
    **dict.fromkeys(("provider", "sku", "region"), _NAME),
    "purchase": "|".join(PURCHASES),
    "price": _AMOUNT,
    "currency": _CURRENCY,
    "unit": "|".join(UNITS),
    "accelerator": _TEXT,
    "gpu_sku": _NAME,
    **dict.fromkeys(("kwh_price", "pue"), _AMOUNT),
    **dict.fromkeys(("effective", "retrieved"), _DATE),
    "source": _TEXT,
    "confidence": "|".join(CONFIDENCES),
}
_ROW_TRUTHS = ("includes_gpu", "includes_host")
_ROW_COUNTS = ("num_accelerators", "granularity_s", "minimum_s")
_MAY_BE_NULL = ("accelerator", "num_accelerators", "granularity_s", "minimum_s", "effective", "retrieved")
_MAY_BE_ABSENT = ("includes_host", "gpu_sku", "kwh_price", "pue")
_ROW_KEYS = (*_ROW_FORMS, *_ROW_TRUTHS, *_ROW_COUNTS)
_EXCHANGE_FORMS = {"currency": _CURRENCY, "usd": _AMOUNT, "date": _DATE, "source": _TEXT}
_MOST_OF_A_COUNT = 10_000_000


def read_book(content: Mapping[str, Any], digest: str, place: str) -> PriceBook:
    """Return the price book in a file's content.

    Raises:
        RulesError: a key is unknown or missing, a value has the wrong form, a currency has no dated rate, or two
            prices have the same id; names `place`.
    """
    for name in content:
        if name not in ("date", "exchange", "prices"):
            raise RulesError(f"{place}: {unknown_name('key', str(name), ('date', 'exchange', 'prices'))}")
    day, rows, rates = content.get("date"), content.get("prices"), content.get("exchange") or []
    _refuse_other({"date": day}, {"date": _DATE}, place)
    if not isinstance(rows, list) or not isinstance(rates, list):
        raise RulesError(f"{place}: 'prices' must be a list, and so must 'exchange' if present")
    exchange = tuple(_exchange(item, f"{place}: exchange[{i}]") for i, item in enumerate(rates))
    usd = {item.currency: item.usd for item in exchange}
    if len(usd) < len(exchange) or "USD" in usd:
        raise RulesError(f"{place}: exchange: one rate per currency, and none for USD")
    prices = tuple(price_of(row, f"{place}: prices[{i}]", usd) for i, row in enumerate(rows))
    try:
        return PriceBook(prices, digest, day, exchange)
    except RulesError as error:
        raise RulesError(f"{place}: {error}") from None


def gather(books: Sequence[PriceBook], place: str) -> PriceBooks:
    """Return the books of one ruleset.

    Raises:
        RulesError: two have the same date; names `place`.
    """
    try:
        return PriceBooks(tuple(books))
    except RulesError as error:
        raise RulesError(f"{place}: {error}") from None


def price_of(row: object, place: str, usd: Mapping[str, Decimal] | None = None) -> Price:
    """Return the price in one row. usd: US dollars for one unit of each other currency.

    Raises:
        RulesError: see `read_book`.
    """
    if not isinstance(row, dict):
        raise RulesError(f"{place}: must be a mapping")
    for name in row:
        if name not in _ROW_KEYS:
            raise RulesError(f"{place}: {unknown_name('key', str(name), _ROW_KEYS)}")
    for name in _ROW_KEYS:
        may_lack = name in _MAY_BE_ABSENT or (name in _MAY_BE_NULL and name in row)
        if row.get(name) is None and not may_lack:
            raise RulesError(f"{place}: {name!r} is missing")
    _refuse_other({name: row[name] for name in _ROW_FORMS if row.get(name) is not None}, _ROW_FORMS, place)
    for name in _ROW_TRUTHS:
        if not isinstance(row.get(name, True), bool):
            raise RulesError(f"{place}: {name} is {printable(row[name])!r}; it must be true or false")
    for name in _ROW_COUNTS:
        value, least = row.get(name), int(name == "granularity_s")
        is_count = is_whole(value) and least <= value <= _MOST_OF_A_COUNT
        if value is not None and not is_count:
            raise RulesError(f"{place}: {name} is {printable(value)!r}; it must be a whole number from {least} up")
    _refuse_contradictions(row, place)
    price, rates = Decimal(row["price"]), {"USD": Decimal(1), **(usd or {})}
    if row["currency"] not in rates:
        raise RulesError(f"{place}: currency is {row['currency']}, for which 'exchange' has no dated rate")
    rate = rates[row["currency"]]
    fields = {name: row[name] for name in _ROW_KEYS if name in row and name not in ("kwh_price", "pue")}
    power = None
    if row.get("kwh_price") is not None:
        per_kwh = Decimal(row["kwh_price"])
        power = Electricity(EXACT.multiply(per_kwh, rate), Decimal(row["pue"]), per_kwh)
    dollars = price if row["currency"] == "USD" else EXACT.multiply(price, rate)
    return Price(**{**fields, "price": price, "usd_per_hour": dollars, "electricity": power})


def _refuse_contradictions(row: Mapping[str, Any], place: str) -> None:
    has_gpus, is_host = bool(row["num_accelerators"]), row["unit"] == "host-h"
    power = [row.get(name) is not None for name in ("kwh_price", "pue")]
    for why, is_wrong in {
        "a host-h row must name its accelerators' row in gpu_sku, count them, and not include them": is_host
        and (row["includes_gpu"] or not has_gpus or row.get("gpu_sku") is None),
        "only a host-h row has gpu_sku": not is_host and row.get("gpu_sku") is not None,
        "a gpu-h row must have one accelerator": row["unit"] == "gpu-h" and row["num_accelerators"] != 1,
        "only an on_prem row has kwh_price and pue, both or neither; a rent includes energy": any(power)
        and (row["purchase"] != "on_prem" or not all(power)),
        "pue must be at least 1: a facility draws at least what its machines draw": all(power)
        and Decimal(row["pue"]) < 1,
        "a price of confidence A must have a date": row["confidence"] == "A"
        and row["retrieved"] is None
        and row["effective"] is None,
    }.items():
        if is_wrong:
            raise RulesError(f"{place}: {printable(row['sku'], 80)}: {why}")


def _exchange(item: object, place: str) -> Exchange:
    if not isinstance(item, dict):
        raise RulesError(f"{place}: must be a mapping")
    for name in item:
        if name not in _EXCHANGE_FORMS:
            raise RulesError(f"{place}: {unknown_name('key', str(name), _EXCHANGE_FORMS)}")
    for name in _EXCHANGE_FORMS:
        if item.get(name) is None:
            raise RulesError(f"{place}: {name!r} is missing; a rate must have it")
    _refuse_other(item, _EXCHANGE_FORMS, place)
    if Decimal(item["usd"]) <= 0:
        raise RulesError(f"{place}: usd is {item['usd']}; it must be above zero")
    return Exchange(item["currency"], Decimal(item["usd"]), item["date"], item["source"])


def _refuse_other(values: Mapping[str, Any], forms: Mapping[str, str], place: str) -> None:
    """Refuse a value that is not a text of its name's form, and a date that does not exist.

    Raises:
        RulesError: there is such a value.
    """
    for name, value in values.items():
        if not (isinstance(value, str) and re.fullmatch(forms[name], value)):
            hint = (
                "; write a number as a text in quotes, so that 0.1 is exactly a tenth"
                if isinstance(value, float | int)
                else ""
            )
            raise RulesError(f"{place}: {name} is {printable(value)!r}; it must match {forms[name]}{hint}")
        if forms[name] == _DATE:
            try:
                date.fromisoformat(value)
            except ValueError:
                raise RulesError(f"{place}: {name} is {value!r}, which is not a date") from None


def row_of(price: Price) -> dict[str, Any]:
    """Return the row as the file of a book has it."""
    row: dict[str, Any] = {name: getattr(price, name) for name in _ROW_KEYS if name not in ("kwh_price", "pue")}
    row["price"] = f"{price.usd_per_hour if price.price is None else price.price:f}"
    if row["gpu_sku"] is None:
        del row["gpu_sku"]
    if row["includes_host"]:
        del row["includes_host"]
    if price.electricity is not None:
        row["kwh_price"], row["pue"] = f"{price.electricity.per_kwh:f}", f"{price.electricity.pue:f}"
    return row


def book_text(day: str, prices: Sequence[Price], exchange: Sequence[Exchange], comment: str) -> str:
    """Return the file of a book: one row per line, sorted by id. comment: its first lines."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()] + [f"date: {json.dumps(day)}"]
    if exchange:
        lines.append("exchange:")
        for item in exchange:
            rate = {"currency": item.currency, "usd": f"{item.usd:f}", "date": item.date, "source": item.source}
            lines.append(f"  - {_flow(rate)}")
    lines.append("prices:")
    lines += [f"  - {_flow(row_of(price))}" for price in sorted(prices, key=lambda price: price.id)]
    return "\n".join(lines) + "\n"


def _flow(values: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()) + "}"
