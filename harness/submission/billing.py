"""The machine time and other resources that a submitter declares for a result, in `billing.yaml`.

The file is optional. It is a claim, read strictly and shown as declared; no ranking uses it:

    purchase: spot                # on_demand if not given
    interruptions: 2              # of spot machines
    attempts:                     # every time a node was held for this result, including failed attempts; UTC
      - {node: n0, provisioned: 2026-11-20T10:00:00Z, released: 2026-11-20T11:30:05Z}
    storage:                      # optional; prices are ids, never amounts
      - {price: aws/gp3/us-east-1/on_demand, gb_hours: 120}
    egress:
      - {price: aws/internet/us-east-1/on_demand, gb: 3.5}
    notes: two runs were lost with their machine
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.base.files import small_file
from harness.cost.price_book import PURCHASES
from harness.errors import SubmissionError, printable, unknown_name

MAX_ATTEMPTS = 10_000
_KEYS = ("purchase", "interruptions", "attempts", "storage", "egress", "notes")
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z", re.ASCII)
_AMOUNT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One node, from provisioning to release."""

    node: str
    provisioned: datetime
    released: datetime

    @property
    def seconds(self) -> Decimal:
        return Decimal((self.released - self.provisioned) // timedelta(microseconds=1)).scaleb(-6)


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something used besides the nodes. unit: "gb-h" of storage or "gb" of traffic. price: an id."""

    unit: str
    price: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Billing:
    """A declaration. interruptions: None if not declared."""

    purchase: str
    interruptions: int | None
    attempts: tuple[Attempt, ...]
    quantities: tuple[Quantity, ...]
    notes: str


def read_billing(path: Path) -> Billing:
    """Return the declaration in a file.

    Raises:
        SubmissionError: it cannot be read, or does not have the form above; the message names place and value.
    """
    from harness.base import strict_yaml  # PyYAML takes a while

    try:
        record = strict_yaml.texts(small_file(path))
    except ValueError as error:
        raise SubmissionError(f"{path}: not YAML: {printable(str(error).splitlines()[0])}") from None
    if not isinstance(record, dict):
        raise SubmissionError(f"{path}: must be a mapping that has 'attempts'")
    _refuse_unknown(record, _KEYS, str(path))
    purchase = _text(record, "purchase", str(path), "on_demand")
    if purchase not in PURCHASES:
        raise SubmissionError(f"{path}: {unknown_name('purchase', purchase, PURCHASES)}")
    quantities = [_quantity(item, place, "gb-h", "gb_hours") for item, place in _items(record, "storage", path)]
    quantities += [_quantity(item, place, "gb", "gb") for item, place in _items(record, "egress", path)]
    attempts = tuple(_attempt(item, place) for item, place in _items(record, "attempts", path))
    if not attempts:
        raise SubmissionError(f"{path}: 'attempts' is missing; it lists every node that was held, and when")
    by_node = sorted(attempts, key=lambda attempt: (attempt.node, attempt.provisioned, attempt.released))
    for one, other in pairwise(by_node):
        if one.node == other.node and other.provisioned < one.released:
            raise SubmissionError(
                f"{path}: attempts: the node {one.node!r} is held twice at {_shown(other.provisioned)}"
            )
    return Billing(purchase, _interruptions(record, purchase, path), attempts, tuple(quantities), _notes(record, path))


def _shown(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")


def _refuse_unknown(record: Mapping[Any, Any], known: tuple[str, ...], place: str) -> None:
    for name in record:
        if name not in known:
            shown = unknown_name("key", name, known) if isinstance(name, str) else "a key that is not a word"
            raise SubmissionError(f"{place}: {shown}")


def _text(record: Mapping[str, Any], name: str, place: str, default: str | None = None) -> str:
    value = record.get(name, default)
    if value is None:
        raise SubmissionError(f"{place}: {name!r} is missing")
    if not isinstance(value, str):
        raise SubmissionError(f"{place}: {name} must be one value, not a {type(value).__name__}")
    return value


def _items(record: Mapping[str, Any], name: str, path: Path) -> list[tuple[dict[str, Any], str]]:
    items = record.get(name, [])
    if not isinstance(items, list) or len(items) > MAX_ATTEMPTS:
        raise SubmissionError(f"{path}: {name} must be a list of at most {MAX_ATTEMPTS:,}")
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise SubmissionError(f"{path}: {name}[{number}]: must be a mapping")
    return [(item, f"{path}: {name}[{number}]") for number, item in enumerate(items)]


def _attempt(item: dict[str, Any], place: str) -> Attempt:
    _refuse_unknown(item, ("node", "provisioned", "released"), place)
    node = _text(item, "node", place)
    if not _NODE.fullmatch(node):
        raise SubmissionError(f"{place}: node is {printable(node, 80)!r}; letters, digits and _ . - only, at most 64")
    found = Attempt(node, _instant(item, "provisioned", place), _instant(item, "released", place))
    if found.released <= found.provisioned:
        raise SubmissionError(f"{place}: released at {_shown(found.released)}, not after it was provisioned")
    return found


def _instant(item: dict[str, Any], name: str, place: str) -> datetime:
    text = _text(item, name, place)
    try:
        if not _INSTANT.fullmatch(text):
            raise ValueError
        return datetime.fromisoformat(text)
    except ValueError:
        raise SubmissionError(
            f"{place}: {name} is {printable(text, 60)!r}; write UTC as 2026-11-20T10:00:00Z"
        ) from None


def _quantity(item: dict[str, Any], place: str, unit: str, name: str) -> Quantity:
    _refuse_unknown(item, ("price", name), place)
    amount = _text(item, name, place)
    if not _AMOUNT.fullmatch(amount):
        raise SubmissionError(f"{place}: {name} is {printable(amount, 60)!r}; it must be a number without a sign")
    return Quantity(unit, _text(item, "price", place), Decimal(amount))


def _interruptions(record: Mapping[str, Any], purchase: str, path: Path) -> int | None:
    if "interruptions" not in record:
        return None
    text = _text(record, "interruptions", str(path))
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise SubmissionError(f"{path}: interruptions is {printable(text, 60)!r}; it must be a whole number from 0 up")
    if purchase != "spot":
        raise SubmissionError(f"{path}: only spot machines have interruptions; purchase is {purchase!r}")
    return int(text)


def _notes(record: Mapping[str, Any], path: Path) -> str:
    return _text(record, "notes", str(path), "")
