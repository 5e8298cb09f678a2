"""`tta prices`: the organiser's price books as a table, searched, validated and compared; a machine of one's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.base.text_table import aligned
from harness.cost.ownership import read_ownership
from harness.cost.price_book import NoPrice, Price, PriceBook, PriceBooks, Quote
from harness.cost.price_file import book_text, row_of
from harness.errors import ExitStatus, InputError, RulesError, UsageError, printable, unknown_name
from harness.ruleset import catalog, load

# Each action's operands, as a person would name them.
ACTIONS = {"show": (), "search": ("TEXT",), "validate": ("FILE",), "diff": ("OLD", "NEW"), "own": ("FILE",)}
FORMATS = ("text", "json")
_HEADER = ("id", "unit", "price", "accelerators", "node USD/h", "as of", "conf.", "ranks")


def run(
    action: str,
    operands: Sequence[str],
    provider: str | None = None,
    gpu: str | None = None,
    region: str | None = None,
    book: str | None = None,
    ruleset: str = "v1",
    output_format: str = "text",
) -> ExitStatus:
    """Carries out one of ACTIONS; prints a table, or one JSON document.

    provider, region: exact; gpu: a part of the accelerator's name, or "none"; they go with show and search.
    book: a file, or the digest (its beginning) or date of a book of the ruleset; the one in force without it.

    Returns:
        FINDINGS where a search finds nothing; else OK.

    Raises:
        UsageError: an unknown action or format, or operands that do not belong to it.
        RulesError: a book cannot be read. InputError: a form of ownership cannot.
    """
    if action not in ACTIONS:
        raise UsageError(f"tta prices: {unknown_name('action', action, ACTIONS)}")
    if output_format not in FORMATS:
        raise UsageError(unknown_name("format", output_format, FORMATS))
    if len(operands) != len(ACTIONS[action]):
        wanted = " ".join((action, *ACTIONS[action]))
        raise UsageError(f"tta prices {action}: write `tta prices {wanted}`; {len(operands)} operands were given")
    if action == "validate":
        return _validate(Path(operands[0]), output_format)
    if action == "own":
        return _own(Path(operands[0]), output_format)
    folder = catalog.ruleset_folder(ruleset)
    if not (folder / load.PRICES_FILE).exists():
        raise RulesError(f"{folder}: has no {load.PRICES_FILE}; this ruleset prices nothing")
    books = load.load_books(folder)
    if action == "diff":
        return _diff(_book(books, operands[0]), _book(books, operands[1]), output_format)
    chosen = _book(books, book)
    words = operands[0].lower().split() if operands else []
    rows = [price for price in chosen.prices if _is_wanted(price, words, provider, gpu, region)]
    _print_rows(books, chosen, sorted(rows, key=lambda price: price.id), output_format)
    return ExitStatus.OK if rows or action == "show" else ExitStatus.FINDINGS


def _book(books: PriceBooks, name: str | None) -> PriceBook:
    if name is None:
        return books.current
    return load.load_prices(Path(name)) if Path(name).is_file() else books.matching(name)


def _is_wanted(price: Price, words: Sequence[str], provider: str | None, gpu: str | None, region: str | None) -> bool:
    searched = f"{price.id} {price.accelerator or ''} {price.source}".lower()
    accelerator = (price.accelerator or "").lower()
    return (
        all(word in searched for word in words)
        and provider in (None, price.provider)
        and region in (None, price.region)
        and (gpu is None or (price.num_accelerators == 0 if gpu == "none" else gpu.lower() in accelerator))
    )


def _why_unranked(book: PriceBook, price: Price) -> str | None:
    """Why the row itself does not rank; None where it does."""
    if price.unit == "gpu-h" and not price.includes_host:
        return "part of a node"
    found = book.quote(price.id, 1)
    if isinstance(found, NoPrice):
        return found.kind
    return None if found.listed is price else f"at {found.listed.purchase}"


def _node(book: PriceBook, price: Price) -> Quote | NoPrice:
    return book.quote(price.id, 1 if price.unit == "gpu-h" else None, is_ranked=False)


def _print_rows(books: PriceBooks, book: PriceBook, rows: Sequence[Price], output_format: str) -> None:
    if output_format == "json":
        _print_json({**_head(book), "prices": [_record(book, price) for price in rows]})
        return
    print(f"price book of {book.date}, {book.digest[:12]}; {len(rows)} of {len(book.prices)} rows")
    if rows:
        print(aligned(_HEADER, [_cells(book, price) for price in rows], frozenset({0, 1, 3, 6, 7})))
    others = [f"{other.digest[:12]} ({other.date})" for other in books.books if other.digest != book.digest]
    if others:
        print(f"other books: {', '.join(others)}")


def _head(book: PriceBook) -> dict[str, Any]:
    return {"digest": book.digest, "date": book.date}


def _record(book: PriceBook, price: Price) -> dict[str, Any]:
    """The row as in the file; money as text, so that no reader turns it into a binary fraction."""
    node, why = _node(book, price), _why_unranked(book, price)
    usd = f"{node.usd_per_hour:f}" if isinstance(node, Quote) else None
    return {"id": price.id, **row_of(price), "node_usd_per_hour": usd, "ranks": why is None, "why_unranked": why}


def _cells(book: PriceBook, price: Price) -> tuple[str, ...]:
    node = _node(book, price)
    count = "?" if price.num_accelerators is None else str(price.num_accelerators)
    each = " each" if price.unit == "gpu-h" else ""
    amount = price.usd_per_hour if price.price is None else price.price
    return (
        price.id,
        price.unit,
        f"{amount:f}" + ("" if price.currency == "USD" else f" {price.currency}"),
        "none" if price.num_accelerators == 0 else f"{count} x {price.accelerator or 'not known'}",
        f"{node.usd_per_hour:f}{each}" if isinstance(node, Quote) else "-",
        price.as_of or "no date",
        price.confidence,
        _why_unranked(book, price) or "yes",
    )


def _print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document, allow_nan=False, indent=2, ensure_ascii=False))


def _validate(path: Path, output_format: str) -> ExitStatus:
    book = load.load_prices(path)
    tests: dict[str, Callable[[Price], bool]] = {
        "rows that rank": lambda price: _why_unranked(book, price) is None,
        "rows without a date": lambda price: price.as_of is None,
        "rows of confidence C": lambda price: price.confidence == "C",
        "rows whose billing is not known": lambda price: price.granularity_s is None or price.minimum_s is None,
    }
    counts = {what: sum(map(test, book.prices)) for what, test in tests.items()}
    if output_format == "json":
        _print_json({**_head(book), "rows": len(book.prices), **counts})
    else:
        print(f"{path}: a price book of {book.date}, {book.digest}: {len(book.prices)} rows")
        print("\n".join(f"  {what}: {count}" for what, count in counts.items()))
    return ExitStatus.OK


def _diff(old: PriceBook, new: PriceBook, output_format: str) -> ExitStatus:
    before, after = ({price.id: row_of(price) for price in book.prices} for book in (old, new))
    changed = {
        name: {field: [row.get(field), after[name].get(field)] for field in {**row, **after[name]}}
        for name, row in sorted(before.items())
        if name in after and row != after[name]
    }
    document: dict[str, Any] = {
        "old": _head(old),
        "new": _head(new),
        "added": sorted(set(after) - set(before)),
        "removed": sorted(set(before) - set(after)),
        "changed": {
            name: {field: pair for field, pair in fields.items() if pair[0] != pair[1]}
            for name, fields in changed.items()
        },
        "exchange_changed": old.exchange != new.exchange,
    }
    if output_format == "json":
        _print_json(document)
        return ExitStatus.OK
    print(f"{old.date} ({old.digest[:12]}) -> {new.date} ({new.digest[:12]})")
    for sign, name in [("+", name) for name in document["added"]] + [("-", name) for name in document["removed"]]:
        print(f"{sign} {name}: {(after if sign == '+' else before)[name]['price']}")
    for name, fields in document["changed"].items():
        shown = "; ".join(f"{field} {_shown(was)} -> {_shown(now)}" for field, (was, now) in fields.items())
        print(f"~ {name}: {shown}")
    if document["exchange_changed"]:
        print("~ exchange rates")
    if not (document["added"] or document["removed"] or document["changed"] or document["exchange_changed"]):
        print("no row differs")
    return ExitStatus.OK


def _shown(value: object) -> str:
    return "none" if value is None else printable(value, 80)


def _own(path: Path, output_format: str) -> ExitStatus:
    try:
        form = read_ownership(load.load_yaml(path), str(path))
    except RulesError as error:
        raise InputError(str(error)) from None
    price = form.price()
    if output_format == "json":
        _print_json({"id": price.id, "hourly": f"{form.hourly:f}", "worked": form.worked(), "row": row_of(price)})
        return ExitStatus.OK
    print("\n".join(form.worked()))
    text = book_text(form.as_of, [price], (), "")
    print(f"\nrow for a price book ({price.id}):\n{text.splitlines()[-1]}")
    return ExitStatus.OK
