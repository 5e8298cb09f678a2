"""Prices: exact, dated, and unknown rather than guessed."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext, localcontext
from pathlib import Path

import pytest

from harness.errors import InputError, RulesError
from harness.loader import PRICES_FILE, load_prices
from harness.prices import CONFIDENCES, PRICE_KEY, Price, PriceBook, cost_usd
from tests.fabricate import SYSTEM

V1 = Path(__file__).parents[2] / "rules" / "v1" / PRICES_FILE
ROW = """\
  - provider: acme
    sku: {sku}
    region: here
    purchase: on_demand
    usd_per_hour: {price}
    effective: null
    retrieved: "2026-11-09"
    source: a price list
    confidence: A
"""
BOX = "acme/box/here/on_demand"


def book_file(tmp_path: Path, *rows: str, head: str = "currency: USD\n") -> Path:
    path = tmp_path / "prices.yaml"
    path.write_text(head + "prices:\n" + "".join(rows))
    return path


def row(price: str = '"3.60"', sku: str = "box") -> str:
    return ROW.format(price=price, sku=sku)


def price(usd_per_hour: str = "3.60", sku: str = "box") -> Price:
    return Price("acme", sku, "here", "on_demand", Decimal(usd_per_hour), None, "2026-11-09", "a price list", "A")


@pytest.mark.parametrize(
    ("seconds", "usd_per_hour", "usd"),
    [
        pytest.param(3600, "55.04", "55.040000", id="an hour"),
        pytest.param(0, "55.04", "0.000000", id="no time"),
        pytest.param(10.0, "0.1008", "0.000280", id="a mini run on two cores"),
        pytest.param(0.1, "3600", "0.100000", id="a tenth is a tenth"),
        pytest.param(0.0018, "1", "0.000001", id="half a millionth is rounded up"),
        pytest.param(0.00179, "1", "0.000000", id="less than half is rounded down"),
        pytest.param(2230.98, "110.08", "68.218411", id="37.183 minutes on two nodes"),
    ],
)
def test_cost_is_seconds_times_price(seconds: float, usd_per_hour: str, usd: str) -> None:
    """USD to a millionth, by hand."""
    assert str(cost_usd(seconds, Decimal(usd_per_hour))) == usd


def test_cost_does_not_depend_on_the_ambient_precision() -> None:
    """A caller's decimal context has no say."""
    with localcontext() as context:
        context.prec = 3
        usd = cost_usd(123456.789, Decimal("55.04"))

    assert getcontext().prec != 3
    assert str(usd) == "1887.517130"


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf, 1e300])
def test_no_duration_has_no_cost(seconds: float) -> None:
    """Bad seconds are an error, also on a system without a price's worth of them."""
    with pytest.raises(InputError, match="is no duration"):
        cost_usd(seconds, Decimal(1))


@pytest.mark.parametrize("usd_per_hour", ["-1", "NaN", "Infinity"])
def test_no_price_has_no_cost(usd_per_hour: str) -> None:
    """A price is finite and not negative."""
    with pytest.raises(InputError, match="is no price"):
        cost_usd(1.0, Decimal(usd_per_hour))


@pytest.mark.parametrize(("nodes", "usd"), [("1", "3.60"), ("8", "28.80"), (2, "7.20")])
def test_price_is_of_all_nodes(nodes: object, usd: str) -> None:
    """USD per hour is the row's times number_of_nodes, which MLPerf writes as a text."""
    book = PriceBook((price(),), "d" * 64)

    assert book.usd_per_hour({**SYSTEM, PRICE_KEY: BOX, "number_of_nodes": nodes}) == Decimal(usd)


@pytest.mark.parametrize(
    "declared",
    [
        pytest.param({}, id="no price named"),
        pytest.param({PRICE_KEY: "acme/bax/here/on_demand"}, id="not in the book"),
        pytest.param({PRICE_KEY: "3.60"}, id="a typed number"),
        pytest.param({PRICE_KEY: 3.6}, id="a number"),
        pytest.param({PRICE_KEY: [BOX]}, id="a list"),
        pytest.param({PRICE_KEY: BOX, "number_of_nodes": "0"}, id="no nodes"),
        pytest.param({PRICE_KEY: BOX, "number_of_nodes": "1.5"}, id="one and a half nodes"),
        pytest.param({PRICE_KEY: BOX, "number_of_nodes": "²"}, id="a digit that is no number"),
        pytest.param({PRICE_KEY: BOX, "number_of_nodes": True}, id="a truth value"),
        pytest.param({PRICE_KEY: BOX, "number_of_nodes": None}, id="null"),
    ],
)
def test_unknown_price_is_none(declared: dict[str, object]) -> None:
    """Unknown is null: neither a typed number nor a guess stands in."""
    book = PriceBook((price(),), "d" * 64)
    system = {**SYSTEM, **declared}

    assert book.usd_per_hour(system) is None
    assert book.cost(system, 10.0) is None


def test_cost_names_the_book_it_was_made_from() -> None:
    """A cost can be computed again: price, digest and day are in it."""
    cost = PriceBook((price(),), "d" * 64).cost({**SYSTEM, PRICE_KEY: BOX, "number_of_nodes": "2"}, 1800.0)

    assert cost is not None
    assert (str(cost.usd), str(cost.usd_per_hour)) == ("3.600000", "7.20")
    assert (cost.price_id, cost.price_digest, cost.as_of) == (BOX, "d" * 64, "2026-11-09")


def test_book_of_version_1_can_be_read() -> None:
    """Every row is dated or marked as undated, has a source, and a known price is the one of its source."""
    book = load_prices(V1)
    h100 = {**SYSTEM, PRICE_KEY: "aws/p5.48xlarge/us-east-1/on_demand"}

    assert len(book.prices) >= 12
    assert len(book.digest) == 64
    assert all(row.confidence in CONFIDENCES and row.source for row in book.prices)
    assert all(row.retrieved or row.confidence != "A" for row in book.prices)
    assert book.usd_per_hour(h100) == Decimal("55.04")


def test_digest_is_of_the_file(tmp_path: Path) -> None:
    """A comment that moves moves the digest: the file is what was published."""
    one = load_prices(book_file(tmp_path, row())).digest
    other = load_prices(book_file(tmp_path, row(), "# later\n")).digest

    assert one != other


def test_price_in_a_file_is_exact(tmp_path: Path) -> None:
    """ "0.1" is a tenth, not the nearest binary fraction."""
    assert load_prices(book_file(tmp_path, row('"0.1"'))).prices[0].usd_per_hour == Decimal("0.1")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        pytest.param([row("0.1")], "a price is a text in quotes", id="a binary number"),
        pytest.param([row("3")], "a price is a text in quotes", id="a whole number"),
        pytest.param([row('"-1"')], "usd_per_hour is '-1'", id="negative"),
        pytest.param([row('"1e3"')], "usd_per_hour is '1e3'", id="with an exponent"),
        pytest.param([row('"0.00"')], "costs 0.00 USD an hour", id="free"),
        pytest.param([row("null")], "'usd_per_hour' is missing", id="null"),
        pytest.param([row(), row('"4"')], "'acme/box/here/on_demand' stands twice", id="one id twice"),
        pytest.param([row(sku="a/b")], "sku is 'a/b'", id="a slash in a part of the id"),
        pytest.param([row() + "    spot: '1'\n"], "unknown key 'spot'", id="an unknown key"),
        pytest.param([row().replace("on_demand", "spot")], "purchase is 'spot'", id="a spot price"),
        pytest.param([row().replace("confidence: A", "confidence: Z")], "confidence is 'Z'", id="unknown confidence"),
        pytest.param([row().replace("    effective: null\n", "")], "'effective' is missing", id="a missing key"),
        pytest.param([row().replace('"2026-11-09"', "soon")], "retrieved is 'soon'", id="no date"),
        pytest.param(["  - acme\n"], r"prices\[0\]: must be a mapping", id="no mapping"),
        pytest.param(["  acme: 1\n"], "'prices' a list", id="no list"),
    ],
)
def test_bad_book_is_refused(tmp_path: Path, rows: list[str], message: str) -> None:
    """What is wrong is named with file, row and value."""
    path = book_file(tmp_path, *rows)

    with pytest.raises(RulesError, match=message) as caught:
        load_prices(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("head", ["", "currency: EUR\n", "currency: USD\nrates: 1\n"])
def test_book_in_another_currency_is_refused(tmp_path: Path, head: str) -> None:
    """The book is in US dollars and says so."""
    with pytest.raises(RulesError, match=r"currency|unknown key 'rates'"):
        load_prices(book_file(tmp_path, row(), head=head))
