"""Price books and their prices: exact, dated, and unknown rather than guessed."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harness.cost.price_book import (
    PRICE_KEY,
    Electricity,
    NoPrice,
    Price,
    PriceBook,
    PriceBooks,
    Quote,
    electricity_usd,
)
from harness.cost.price_file import book_text
from harness.errors import RulesError, UsageError
from harness.ruleset.load import PRICES_FILE, load_books, load_prices
from tests.fabricate import SYSTEM

V1 = Path(__file__).parents[3] / "rules" / "v1"
ROW = (
    "  - {{provider: acme, sku: {sku}, region: here, purchase: on_demand, price: {price}, currency: USD, "
    "unit: instance-h, includes_gpu: false, accelerator: null, num_accelerators: 0, granularity_s: 60, minimum_s: 0, "
    'effective: null, retrieved: "2026-11-09", source: a price list, confidence: A}}\n'
)
HEAD = 'date: "2026-11-21"\n'
BOX = "acme/box/here/on_demand"


def book_file(tmp_path: Path, *rows: str, head: str = HEAD) -> Path:
    path = tmp_path / "prices.yaml"
    path.write_text(head + "prices:\n" + "".join(rows))
    return path


def row(price: str = '"3.60"', sku: str = "box") -> str:
    return ROW.format(price=price, sku=sku)


def price(usd_per_hour: str = "3.60", sku: str = "box", purchase: str = "on_demand", **more: Any) -> Price:
    fields = {"effective": None, "retrieved": "2026-11-09", "source": "a price list", "confidence": "B", **more}
    return Price("acme", sku, "here", purchase, Decimal(usd_per_hour), **fields)


def naming(name: object = BOX, **more: Any) -> dict[str, Any]:
    return {**SYSTEM, PRICE_KEY: name, **more}


@pytest.mark.parametrize(("nodes", "usd"), [("1", "3.60"), ("8", "28.80"), (2, "7.20")])
def test_price_is_of_all_nodes(nodes: object, usd: str) -> None:
    """USD per hour is the row's times number_of_nodes, which MLPerf writes as a text."""
    book = PriceBook((price(),), "d" * 64)

    assert book.usd_per_hour(naming(number_of_nodes=nodes)) == Decimal(usd)


HOST: dict[str, Any] = {"sku": "host", "unit": "host-h", "num_accelerators": 8, "gpu_sku": "gpu"}
GPU: dict[str, Any] = {"sku": "gpu", "unit": "gpu-h", "num_accelerators": 1, "includes_host": False}


@pytest.mark.parametrize(
    ("declared", "kind", "why"),
    [
        pytest.param({}, "unnamed", "has no tta_price_sku", id="no price named"),
        pytest.param({PRICE_KEY: "acme/bax/here/on_demand"}, "unknown", f"did you mean '{BOX}'", id="not in the book"),
        pytest.param({PRICE_KEY: "3.60", "number_of_nodes": "0"}, "unknown", "'3.60'", id="a typed number, no nodes"),
        pytest.param({PRICE_KEY: [BOX]}, "unknown", f"['{BOX}']", id="a list"),
        pytest.param({PRICE_KEY: BOX, "number_of_nodes": "0"}, "uncounted", "number_of_nodes is '0'", id="no nodes"),
        pytest.param({PRICE_KEY: "acme/old/here/on_demand"}, "undated", "has no date", id="no date"),
        pytest.param({PRICE_KEY: "acme/spare/here/spot"}, "unlisted", "has no on-demand price", id="spot alone"),
        pytest.param({PRICE_KEY: "acme/gpu/here/on_demand"}, "unlisted", "not the price of a whole", id="no host"),
        pytest.param({PRICE_KEY: "acme/disk/here/on_demand"}, "unlisted", "not the price of a whole", id="storage"),
        pytest.param({PRICE_KEY: "acme/bare/here/on_demand"}, "unlisted", "without its acc", id="no such accelerator"),
        pytest.param({PRICE_KEY: "acme/rich/here/on_demand"}, "unlisted", "without its acc", id="on other terms only"),
        pytest.param({PRICE_KEY: "acme/some/here/on_demand"}, "unlisted", "without its acc", id="uncounted in a host"),
        pytest.param({PRICE_KEY: "acme/each/here/on_demand"}, "uncounted", "number per node is not", id="uncounted"),
    ],
)
def test_unknown_price_is_none(declared: dict[str, object], kind: str, why: str) -> None:
    """Unknown is null, never a typed number or a guess, and the reason has a name."""
    rows = (
        price(),
        price(sku="old", retrieved=None),
        price(sku="spare", purchase="spot"),
        price(**GPU),
        price(sku="disk", unit="gb-h"),
        price(**{**HOST, "sku": "bare", "gpu_sku": "gone"}),
        price(**{**HOST, "sku": "rich", "gpu_sku": "spare"}),
        price(**{**HOST, "sku": "some", "num_accelerators": None}),
        price(sku="each", unit="gpu-h", num_accelerators=1),
    )
    book = PriceBook(rows, "d" * 64)
    system = {**SYSTEM, **declared}

    found = book.quote_of(system)
    assert isinstance(found, NoPrice)
    assert (found.kind, book.usd_per_hour(system), book.cost(system, 10.0)) == (kind, None, None)
    assert why in found.why


def test_a_price_of_one_accelerator_is_taken_as_often_as_there_are() -> None:
    """RunPod and Hyperstack rent accelerators with their share of a host: 8 x 3.99."""
    book = PriceBook((price("3.99", unit="gpu-h", num_accelerators=1),), "d" * 64)

    assert book.usd_per_hour(naming(accelerators_per_node="8", number_of_nodes="2")) == Decimal("63.84")


def test_cost_names_the_book_it_was_made_from() -> None:
    """A cost can be computed again: price, digest and day are in it."""
    cost = PriceBook((price(),), "d" * 64).cost(naming(number_of_nodes="2"), 1800.0)

    assert cost is not None
    assert (str(cost.usd), str(cost.usd_per_hour)) == ("3.600000", "7.20")
    assert (cost.price_id, cost.price_digest, cost.as_of) == (BOX, "d" * 64, "2026-11-09")


@pytest.mark.parametrize(
    ("name", "usd"),
    [
        ("aws/p4d.24xlarge/us-east-1/on_demand", "21.957642"),
        ("aws/p4de.24xlarge/us-east-1/on_demand", "27.44705"),
        ("aws/p5.48xlarge/us-east-1/on_demand", "55.04"),
        ("aws/p5en.48xlarge/us-east-1/on_demand", "63.296"),
        ("aws/m7i.large/us-east-1/on_demand", None),
        ("aws/p3.16xlarge/us-east-1/on_demand", None),
        ("gcp/a3-ultragpu-8g/us-central1/on_demand", "83.492"),
        ("gcp/a3-highgpu-8g/us-central1/on_demand", "87.83"),
        ("azure/Standard_NC24ads_A100_v4/eastus/on_demand", "3.673"),
        ("azure/Standard_NC40ads_H100_v5/eastus/on_demand", "6.98"),
        ("azure/Standard_ND96isr_H100_v5/eastus/on_demand", "98.32"),
        ("lambda/8x H100 SXM/any/on_demand", "31.92"),
        ("coreweave/HGX H100/NA/on_demand", "49.24"),
    ],
)
def test_ids_of_the_first_book_keep_working(name: str, usd: str | None) -> None:
    """Names that descriptions may carry since the first version; an undated row is there and has no cost."""
    book = load_prices(V1 / PRICES_FILE)

    assert book.row(name) is not None
    assert book.usd_per_hour(naming(name)) == (None if usd is None else Decimal(usd))


def test_a_book_written_again_has_the_same_prices(tmp_path: Path) -> None:
    """What `book_text` writes, the loader reads: rows, exchange and date; 10 EUR at 1.08 are 10.80 USD."""
    euros = 'date: "2026-11-21"\nexchange:\n  - {currency: EUR, usd: "1.08", date: "2026-11-20", source: a bank}\n'
    first = load_prices(book_file(tmp_path, row('"0.1"'), row('"10"', "euro").replace("USD", "EUR"), head=euros))
    (tmp_path / "again.yaml").write_text(book_text(first.date or "", first.prices, first.exchange, "a\n\nb"))
    again = load_prices(tmp_path / "again.yaml")

    assert [item.usd_per_hour for item in first.prices] == [Decimal("0.1"), Decimal("10.80")]
    assert (first.prices[1].price, first.prices[1].currency) == (Decimal(10), "EUR")
    assert (again.date, again.exchange, set(again.prices)) == (first.date, first.exchange, set(first.prices))
    v1 = load_prices(V1 / PRICES_FILE)
    (tmp_path / "v1.yaml").write_text(book_text(v1.date or "", v1.prices, v1.exchange, ""))
    assert set(load_prices(tmp_path / "v1.yaml").prices) == set(v1.prices)


def test_digest_is_of_the_file(tmp_path: Path) -> None:
    """A comment changes it: the file is what was published."""
    one = load_prices(book_file(tmp_path, row())).digest
    other = load_prices(book_file(tmp_path, row(), "# later\n")).digest

    assert one != other


def replaced(old: str, new: str) -> str:
    assert old in row()
    return row().replace(old, new)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        pytest.param([row("0.1")], "write a number as a text in quotes", id="a binary number"),
        pytest.param([row('"-1"')], "price is '-1'", id="negative"),
        pytest.param([row('"0.00"')], "costs 0.00 USD; a price is not", id="free"),
        pytest.param([row("null")], "'price' is missing", id="null"),
        pytest.param([row(), row('"4"')], "'acme/box/here/on_demand' occurs twice", id="one id twice"),
        pytest.param([row(sku="a/b")], "sku is 'a/b'", id="a slash in a part of the id"),
        pytest.param([replaced("source:", "spot: '1', source:")], "unknown key 'spot'", id="an unknown key"),
        pytest.param([replaced("on_demand", "haggled")], "purchase is 'haggled'", id="an unknown purchase"),
        pytest.param([replaced("confidence: A", "confidence: Z")], "confidence is 'Z'", id="unknown confidence"),
        pytest.param([replaced("effective: null, ", "")], "'effective' is missing", id="a missing key"),
        pytest.param([replaced('"2026-11-09"', "soon")], "retrieved is 'soon'", id="no date"),
        pytest.param([replaced("2026-11-09", "2026-02-30")], "which is not a date", id="30th of February"),
        pytest.param([replaced('retrieved: "2026-11-09"', "retrieved: null")], "A must have a date", id="A undated"),
        pytest.param([replaced("granularity_s: 60", "granularity_s: 0")], "granularity_s is '0'", id="no granularity"),
        pytest.param([replaced("minimum_s: 0", "minimum_s: true")], "minimum_s is 'True'", id="a true minimum"),
        pytest.param([replaced("includes_gpu: false", "includes_gpu: 0")], "true or false", id="no truth"),
        pytest.param([replaced("instance-h", "host-h")], "must name its accelerators", id="a host alone"),
        pytest.param([replaced("instance-h", "gpu-h")], "must have one accelerator", id="no accelerator at all"),
        pytest.param([replaced("source:", "kwh_price: '1', pue: '1.2', source:")], "a rent includes energy", id="kWh"),
        pytest.param(
            [replaced("on_demand", "on_prem").replace("source:", "kwh_price: '1', pue: '0.9', source:")],
            "pue must be at least 1",
            id="a facility that makes energy",
        ),
        pytest.param([replaced("USD", "EUR")], "no dated rate", id="a currency without a rate"),
        pytest.param(["  - acme\n"], r"prices\[0\]: must be a mapping", id="no mapping"),
        pytest.param(["  acme: 1\n"], "'prices' must be a list", id="not a list"),
    ],
)
def test_bad_book_is_refused(tmp_path: Path, rows: list[str], message: str) -> None:
    """What is wrong is named with file, row and value."""
    path = book_file(tmp_path, *rows)

    with pytest.raises(RulesError, match=f"^{path}: .*{message}"):
        load_prices(path)


RATE = 'exchange:\n  - {currency: EUR, usd: "1.08", date: "2026-11-20", source: a bank}\n'


@pytest.mark.parametrize(
    ("head", "message"),
    [
        pytest.param("", "date is 'None'", id="no date"),
        pytest.param(HEAD + "currency: USD\n", "unknown key 'currency'", id="an unknown key"),
        pytest.param(HEAD + RATE.replace(', date: "2026-11-20"', ""), "'date' is missing", id="a rate without a date"),
        pytest.param(HEAD + RATE.replace(", source: a bank", ""), "'source' is missing", id="a rate without a source"),
        pytest.param(HEAD + RATE.replace("1.08", "0"), "must be above zero", id="a worthless currency"),
        pytest.param(HEAD + RATE.replace("EUR", "USD"), "none for USD", id="a rate of the dollar"),
        pytest.param(HEAD + RATE + RATE.removeprefix("exchange:\n"), "one rate per currency", id="two rates"),
        pytest.param(HEAD + "exchange: [1.08]\n", "must be a mapping", id="a rate without a currency"),
        pytest.param(HEAD + RATE.replace("{currency", "{bank: b, currency"), "unknown key 'bank'", id="a rate's key"),
    ],
)
def test_bad_head_of_a_book_is_refused(tmp_path: Path, head: str, message: str) -> None:
    """A book has a date, and so has a rate of exchange."""
    with pytest.raises(RulesError, match=message):
        load_prices(book_file(tmp_path, row(), head=head))


def test_books_of_a_ruleset_are_ordered_by_date(tmp_path: Path) -> None:
    """By the dates in the files, whatever their names; the newest is in force."""
    book_file(tmp_path, row())
    (tmp_path / "prices").mkdir()
    for name, day, amount in (("a", "2027-02-01", '"4"'), ("b", "2027-01-01", '"5"')):
        (tmp_path / "prices" / f"{name}.yaml").write_text(f'date: "{day}"\nprices:\n{row(amount)}')
    books = load_books(tmp_path)

    assert [book.date for book in books.books] == ["2026-11-21", "2027-01-01", "2027-02-01"]
    assert (books.current.usd_per_hour(naming()), books.first.usd_per_hour(naming())) == (Decimal(4), Decimal("3.60"))
    assert books.digest == books.current.digest
    assert books.named(books.books[1].digest) is books.books[1]
    assert books.named("f" * 64) is None
    assert books.matching("2027-01-01") is books.matching(books.books[1].digest[:8]) is books.books[1]
    for prefix in ("", "zz", "2028-01-01"):
        with pytest.raises(UsageError, match="neither a file nor the digest or date of one book"):
            books.matching(prefix)


def test_books_need_dates_of_their_own(tmp_path: Path) -> None:
    """Otherwise it would be unknown which one is in force."""
    book_file(tmp_path, row())
    (tmp_path / "prices").mkdir()
    (tmp_path / "prices" / "again.yaml").write_text(HEAD + "prices:\n" + row())

    with pytest.raises(RulesError, match=f"^{tmp_path}: each price book needs a date"):
        load_books(tmp_path)
    for books in ((), (PriceBook((), "d" * 64),)):
        with pytest.raises(RulesError, match="each price book needs a date"):
            PriceBooks(books)


def test_an_empty_prefix_names_no_book() -> None:
    """Not even if there is only one."""
    books = PriceBooks((PriceBook((), "d" * 64, "2027-01-01"),))

    assert books.matching("d") is books.current
    with pytest.raises(UsageError, match="neither a file nor the digest or date of one book"):
        books.matching("")


def test_energy_is_charged_on_ones_own_machine_only() -> None:
    """7.2 MJ are 2 kWh: x PUE 1.5 x 0.20 USD are 0.60 USD; nothing on rented machines, or by an estimate."""
    power = Electricity(Decimal("0.20"), Decimal("1.5"), Decimal("0.20"))
    own = price(purchase="on_prem", electricity=power)

    assert electricity_usd(own, 7_200_000.0, "measured") == Decimal("0.600000")
    assert electricity_usd(own, 7_200_000.0, "estimated") is None
    assert electricity_usd(own, None, "none") is None
    assert electricity_usd(price(), 7_200_000.0, "measured") is None
    assert electricity_usd(own, 7.2e12, "measured") == Decimal("600000.000000")
    assert electricity_usd(own, None, "measured") is None
    assert electricity_usd(price(electricity=power), 7_200_000.0, "measured") is None
    assert electricity_usd(price(purchase="on_prem"), 7_200_000.0, "measured") is None
    assert isinstance(PriceBook((own,), "d" * 64).quote(own.id), Quote)


def test_a_price_is_of_the_day_on_which_the_source_had_it() -> None:
    """Else the day from which it holds, as the source states it; else None."""
    dates = [("2026-01-01", "2026-11-09"), ("2026-01-01", None), (None, None)]

    assert [price(effective=since, retrieved=had).as_of for since, had in dates] == ["2026-11-09", "2026-01-01", None]


@pytest.mark.parametrize(
    ("usd", "unit", "is_sound"),
    [
        ("0.01", "instance-h", True),
        ("0", "instance-h", False),
        ("0", "gpu-h", False),
        ("-1", "instance-h", False),
        ("0", "gb", True),
        ("-0.5", "gb", False),
    ],
)
def test_a_price_is_not_below_zero_and_time_is_not_free(usd: str, unit: str, is_sound: bool) -> None:
    """What a provider gives away is traffic, never a machine."""
    if is_sound:
        assert PriceBook((price(usd, unit=unit),), "d" * 64).row(BOX) is not None
    else:
        with pytest.raises(RulesError, match="a price is not negative, and time not free"):
            PriceBook((price(usd, unit=unit),), "d" * 64)


def test_a_quote_is_of_the_list_price_unless_it_need_not_rank() -> None:
    """A spot machine is ranked at its price on demand, and shown at its own."""
    book = PriceBook((price(), price("1", purchase="spot")), "d" * 64)
    ranked, shown = book.quote("acme/box/here/spot"), book.quote("acme/box/here/spot", is_ranked=False)

    assert isinstance(ranked, Quote)
    assert isinstance(shown, Quote)
    assert (ranked.usd_per_hour, ranked.row.purchase) == (Decimal("3.60"), "spot")
    assert shown.usd_per_hour == Decimal(1)


@pytest.mark.parametrize(("count", "usd"), [(None, None), (0, None), (-1, None), (1, "3.60"), (2, "7.20")])
def test_a_node_has_at_least_one_accelerator_if_they_are_priced(count: int | None, usd: str | None) -> None:
    """A node of no accelerators would cost nothing."""
    found = PriceBook((price(unit="gpu-h"),), "d" * 64).quote(BOX, count)

    assert (found.kind if isinstance(found, NoPrice) else str(found.usd_per_hour)) == (usd or "uncounted")


def test_a_host_is_priced_with_its_accelerators() -> None:
    """A host of 10 USD with eight accelerators of 2.50 each."""
    rows = (price("10", **HOST), price("2.50", **GPU))
    found = PriceBook(rows, "d" * 64).quote("acme/host/here/on_demand")

    assert isinstance(found, Quote)
    assert (found.usd_per_hour, found.parts) == (Decimal(30), rows)


def test_a_price_ranks_only_if_every_part_of_it_has_a_date() -> None:
    """An estimate needs no date."""
    book = PriceBook((price("10", **HOST), price("2.50", **{**GPU, "retrieved": None})), "d" * 64)
    ranked, shown = (book.quote("acme/host/here/on_demand", is_ranked=is_ranked) for is_ranked in (True, False))

    assert ranked == NoPrice("undated", "'acme/gpu/here/on_demand' has no date")
    assert isinstance(shown, Quote)
    assert shown.usd_per_hour == Decimal(30)
