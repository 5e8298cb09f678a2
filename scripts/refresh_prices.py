#!/usr/bin/env python3
"""A new dated price book from the providers' public lists, beside the old one, which stays as it is.

    scripts/refresh_prices.py                    # the AWS and Azure rows of the book in force, fetched anew
    scripts/refresh_prices.py --provider azure --out book.yaml

Rows of other providers, and those that a list does not have, are carried over with the date they had. A book in
rules/v1/prices/ is in force from its date on: look at `tta prices diff OLD NEW` before it goes there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from harness.cost.price_book import Price, PriceBook  # noqa: E402
from harness.cost.price_file import book_text  # noqa: E402
from harness.cost.provider_lists import AWS_INDEX, AZURE_PRICES, Listed, aws_prices, azure_prices  # noqa: E402
from harness.errors import OutputError, TtaError  # noqa: E402
from harness.ruleset import load  # noqa: E402

COMMENT = """List prices, fetched {day} by scripts/refresh_prices.py for {providers}; other rows are carried over.
docs/cost.md says what each field means and what ranks. Never edited: a correction is a later book."""


def fetched(book: PriceBook, providers: Sequence[str], aws: str, azure: str) -> Iterator[Listed]:
    """What the lists say of the machines in `book`; a region or size that cannot be had is an error."""
    places = sorted({(row.provider, row.region) for row in book.prices if row.region != "unstated"})
    for provider, region in places:
        skus = sorted({row.sku for row in book.prices if (row.provider, row.region) == (provider, region)})
        if provider == "aws" and provider in providers:
            yield from aws_prices(region, skus, aws)
        elif provider == "azure" and provider in providers:
            for sku in skus:
                yield from azure_prices(region, sku, azure)


def renewed(book: PriceBook, listed: Sequence[Listed], today: date) -> list[Price]:
    """The rows of `book` with those of `listed` in place of theirs, or added; machines keep what is known of them."""
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


def write_new(path: Path, text: str) -> None:
    """Writes a file that must not be there yet.

    Raises:
        OutputError: it is there, or cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x") as stream:
            stream.write(text)
    except FileExistsError:
        raise OutputError(f"{path}: is there already; a price book is never edited") from None
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from None


def main(argv: Sequence[str] | None = None, today: date | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ruleset", type=Path, default=ROOT / "rules" / "v1", metavar="DIR")
    parser.add_argument("--provider", action="append", choices=("aws", "azure"), help="only this one (may be repeated)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="(default: DIR/prices/<today>.yaml)")
    parser.add_argument("--aws-index", default=AWS_INDEX, metavar="URL")
    parser.add_argument("--azure-prices", default=AZURE_PRICES, metavar="URL")
    arguments = parser.parse_args(argv)
    today = today or datetime.now(UTC).date()
    providers = arguments.provider or ["aws", "azure"]
    try:
        book = load.load_books(arguments.ruleset).current
        listed = list(fetched(book, providers, arguments.aws_index, arguments.azure_prices))
        out = arguments.out or arguments.ruleset / load.PRICES_FOLDER / f"{today.isoformat()}.yaml"
        comment = COMMENT.format(day=today.isoformat(), providers=" and ".join(providers))
        write_new(out, book_text(today.isoformat(), renewed(book, listed, today), book.exchange, comment))
        new = load.load_prices(out)
    except TtaError as error:
        print(f"refresh_prices: {error}; no book was written", file=sys.stderr)
        return int(error.exit_status)
    missing = sorted(
        row.id for row in book.prices if row.provider in providers and row.id not in {x.id for x in listed}
    )
    print(f"not in the lists, carried over as they were: {', '.join(missing) or 'none'}", file=sys.stderr)
    print(f"{out}: {len(new.prices)} rows, {len(listed)} fetched, {new.digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
