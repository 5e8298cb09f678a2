"""`tta prices`: show, search, validate, compare and refresh the organiser's price books; price your own machine."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from harness.base import typed_yaml
from harness.base.files import write_new
from harness.base.text_table import aligned
from harness.commands._arguments import Parser, add_format, add_ruleset, as_path, utc_today
from harness.cost.ownership import read_ownership
from harness.cost.price_book import NoPrice, Price, PriceBook, PriceBooks, Quote
from harness.cost.price_file import book_text, row_of
from harness.cost.provider_lists import AWS_INDEX, AZURE_PRICES, Listed, aws_prices, azure_prices
from harness.errors import ExitStatus, InputError, RulesError, UsageError, printable, unknown_name
from harness.ruleset import catalog, load

# The operands of each action.
ACTIONS: dict[str, tuple[str, ...]] = {
    "show": (),
    "search": ("TEXT",),
    "validate": ("FILE",),
    "diff": ("OLD", "NEW"),
    "own": ("FILE",),
    "refresh": (),
}
LISTING_PROVIDERS = ("aws", "azure")  # whose public price lists `refresh` reads
FORMATS = ("text", "json")
_HEADER = ("id", "unit", "price", "accelerators", "node USD/h", "as of", "conf.", "ranks")


_COMMENT = """List prices, fetched {day} by `tta prices refresh` for {providers}; other rows are carried over.
docs/explanation/cost.md says what each field means and what ranks. Never edited: a correction is a later book."""


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        default="show",
        metavar="ACTION",
        help="show (default), search TEXT, validate FILE, diff OLD NEW, own FILE (price a machine you own), or refresh "
        "(write a new book from the public lists of AWS and Azure)",
    )
    parser.add_argument("operands", nargs="*", metavar="TEXT|FILE", help="the operands of the action")
    parser.add_argument("--provider", metavar="NAME", help="show, search, refresh: only this provider's rows")
    parser.add_argument(
        "--gpu",
        metavar="NAME",
        help="show, search: only rows whose accelerator has this in its name; none: rows without an accelerator",
    )
    parser.add_argument("--region", metavar="NAME", help="show, search: only rows of this region")
    parser.add_argument("--book", metavar="FILE|DIGEST", help="show, search: another book (default: the one in force)")
    add_ruleset(parser, "the ruleset that the books belong to")
    add_format(parser)
    parser.add_argument(
        "--out", type=as_path, metavar="FILE", help="refresh: the new book (default: <ruleset>/prices/<today>.yaml)"
    )
    parser.add_argument("--aws-index", default=AWS_INDEX, metavar="URL", help="refresh: AWS's list of regions")
    parser.add_argument("--azure-prices", default=AZURE_PRICES, metavar="URL", help="refresh: Azure's retail prices")


def call(arguments: argparse.Namespace) -> ExitStatus:
    if arguments.action == "refresh" and not arguments.operands:
        providers = LISTING_PROVIDERS if arguments.provider is None else (arguments.provider,)
        return refresh(
            arguments.ruleset, providers, arguments.out, utc_today(), arguments.aws_index, arguments.azure_prices
        )
    return run(
        action=arguments.action,
        operands=arguments.operands,
        provider=arguments.provider,
        gpu=arguments.gpu,
        region=arguments.region,
        book=arguments.book,
        ruleset=arguments.ruleset,
        output_format=arguments.format,
    )


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
    """Carry out one of ACTIONS except `refresh`, and print a table or one JSON document.

    provider, region: exact; gpu: a part of the accelerator's name, or "none"; for show and search.
    book: a file, or the beginning of the digest or the date of a book of the ruleset; without it, the one in force.

    Returns:
        FINDINGS if a search finds nothing.

    Raises:
        UsageError: an unknown action or format, or operands that the action does not take.
        RulesError: a book cannot be read. InputError: a form of ownership cannot be read.
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
    """Why the row itself does not rank; None if it does."""
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
    """The row as in the file, with money as text, so that no reader turns it into a binary fraction."""
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
        form = read_ownership(typed_yaml.load_yaml(path), str(path))
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


def refresh(
    ruleset: str, providers: Sequence[str], out: Path | None, today: date, aws_index: str, azure_url: str
) -> ExitStatus:
    """Write a new book: the book in force, with the rows of `providers` from their public lists.

    Rows of other providers, and those that a list does not have, are carried over with the date they had.

    Raises:
        UsageError: a provider without a list. DataError: a list cannot be read. RulesError: the book in force cannot.
        OutputError: the new book exists already, or cannot be written.
    """
    for provider in providers:
        if provider not in LISTING_PROVIDERS:
            raise UsageError(unknown_name("provider", provider, LISTING_PROVIDERS))
    folder = catalog.ruleset_folder(ruleset)
    book = load.load_books(folder).current
    listed = list(_fetched(book, providers, aws_index, azure_url))
    out = out or folder / load.PRICES_FOLDER / f"{today.isoformat()}.yaml"
    comment = _COMMENT.format(day=today.isoformat(), providers=" and ".join(providers))
    text = book_text(today.isoformat(), _renewed(book, listed, today), book.exchange, comment)
    write_new(out, text.encode(), "exists already; a price book is never edited")
    new = load.load_prices(out)
    found = {item.id for item in listed}
    missing = sorted(row.id for row in book.prices if row.provider in providers and row.id not in found)
    print(f"not in the lists, carried over unchanged: {', '.join(missing) or 'none'}", file=sys.stderr)
    print(f"{out}: {len(new.prices)} rows, {len(listed)} fetched, {new.digest}")
    return ExitStatus.OK


def _fetched(book: PriceBook, providers: Sequence[str], aws_index: str, azure_url: str) -> Iterator[Listed]:
    """The listed prices of the machines in `book`; a region or size that cannot be fetched is an error."""
    places = sorted({(row.provider, row.region) for row in book.prices if row.region != "unstated"})
    for provider, region in places:
        skus = sorted({row.sku for row in book.prices if (row.provider, row.region) == (provider, region)})
        if provider == "aws" and provider in providers:
            yield from aws_prices(region, skus, aws_index)
        elif provider == "azure" and provider in providers:
            for sku in skus:
                yield from azure_prices(region, sku, azure_url)


def _renewed(book: PriceBook, listed: Sequence[Listed], today: date) -> list[Price]:
    """The rows of `book`, replaced by those of `listed` or joined by them; what is known of a machine is kept."""
    rows = {row.id: row for row in book.prices}
    machines = {(row.provider, row.sku): row for row in book.prices}
    for item in listed:
        like = rows.get(item.id) or machines[item.provider, item.sku]
        rows[item.id] = replace(
            like,
            region=item.region,
            purchase=item.purchase,
            usd_per_hour=item.usd_per_hour,
            price=item.usd_per_hour,
            currency="USD",
            unit="instance-h",
            effective=item.effective,
            retrieved=today.isoformat(),
            source=item.source,
            confidence="A",
        )
    return list(rows.values())
