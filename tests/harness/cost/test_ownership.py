"""A company's own machine: its hourly price, derived from its capital cost, without energy."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli import main
from harness.cost.ownership import read_ownership
from harness.errors import InputError
from harness.ruleset.load import load_prices

FORM: dict[str, Any] = {
    "provider": "acme",
    "sku": "box",
    "region": "cellar",
    "currency": "USD",
    "capital_cost": "250000",
    "residual_fraction": "0.10",
    "lifetime_years": "5",
    "utilisation_fraction": "0.60",
    "share_per_hour": "1.20",
    "kwh_price": "0.14",
    "pue": "1.3",
    "pue_class": "measured",
    "as_of": "2026-11-01",
    "source": "an invoice",
    "accelerator": "H100",
    "num_accelerators": 8,
}
RATE = {"usd": "1.08", "date": "2026-11-20", "source": "a bank"}


def form(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**FORM, **changes}.items() if value is not ...}


def yaml_of(content: dict[str, Any]) -> str:
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in content.items())


def test_worked_arithmetic_is_that_of_the_price() -> None:
    """Each step by hand; the last is what the book gets."""
    found = read_ownership(FORM, "own.yaml")

    assert found.worked() == [
        "loss of value   250000 x (1 - 0.10) = 225000.00 USD",
        "hours in use    5 a x 8760 h x 0.60 = 26280 h",
        "capital         225000.00 / 26280 = 8.561644 USD per hour",
        "share           1.20 USD per hour",
        "hourly          9.761644 USD per hour in use, without energy",
        "energy, extra   0.14 x PUE 1.3 (measured) = 0.182 USD per measured kWh; nothing if energy was not measured",
    ]
    price = found.price()
    assert (price.price, price.usd_per_hour, price.purchase) == (Decimal("9.761644"), Decimal("9.761644"), "on_prem")
    assert (price.accelerator, price.num_accelerators, price.as_of) == ("H100", 8, "2026-11-01")


def test_another_currency_is_kept_with_its_dollars() -> None:
    """9.761644 EUR at 1.08 are 10.54257552 USD; the electricity, too."""
    found = read_ownership(form(currency="EUR", exchange=RATE), "own.yaml")
    price = found.price()

    assert (price.price, price.currency, price.usd_per_hour) == (Decimal("9.761644"), "EUR", Decimal("10.54257552"))
    assert price.electricity is not None
    assert price.electricity.usd_per_kwh == Decimal("0.1512")
    assert "x 1.08 (2026-11-20, a bank) = 10.542576 USD per hour" in found.worked()[5]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"utilisation_fraction": "1"}, "no machine is used in every hour", id="always at work"),
        pytest.param({"utilisation_fraction": "0"}, "must lie in", id="never at work"),
        pytest.param({"residual_fraction": "1"}, "must lie in", id="worth as much as ever"),
        pytest.param({"lifetime_years": "0"}, "must lie in", id="no life"),
        pytest.param({"capital_cost": "0"}, "must lie in", id="a gift"),
        pytest.param({"pue": "0.99"}, "must lie in", id="a facility that makes energy"),
        pytest.param({"pue": 1.3}, "a number, as a text in quotes", id="a binary number"),
        pytest.param({"kwh_price": "-0.1"}, "a number, as a text in quotes", id="paid to draw"),
        pytest.param({"kwh_price": ...}, "'kwh_price' is missing", id="no tariff"),
        pytest.param({"as_of": ...}, "'as_of' is missing", id="no date"),
        pytest.param({"as_of": "2026-02-30"}, "which is not a date", id="30th of February"),
        pytest.param({"as_of": "yesterday"}, "as_of is 'yesterday'", id="yesterday"),
        pytest.param({"pue_class": "felt"}, "pue_class is 'felt'", id="a felt PUE"),
        pytest.param({"sku": "a/b"}, "sku is 'a/b'", id="a slash in a name"),
        pytest.param({"num_accelerators": "8"}, "num_accelerators is '8'", id="a number as text"),
        pytest.param({"num_accelerators": True}, "num_accelerators is 'True'", id="a true number"),
        pytest.param({"accelerator": 100}, "accelerator is '100'", id="a number as name"),
        pytest.param({"capex": "1"}, "unknown key 'capex'", id="an unknown key"),
        pytest.param({"currency": "EUR"}, "exchange gives US dollars for one EUR", id="no rate"),
        pytest.param({"exchange": RATE}, "exchange gives US dollars for one USD", id="a rate of the dollar"),
        pytest.param({"currency": "EUR", "exchange": "1.08"}, "must be a mapping", id="a rate without a date"),
        pytest.param(
            {"currency": "EUR", "exchange": {"usd": "1.08", "source": "a bank"}}, "'date' is missing", id="no day"
        ),
    ],
)
def test_bad_form_is_refused(changes: dict[str, Any], message: str) -> None:
    """Place, value and what is allowed."""
    with pytest.raises(InputError, match=rf"^own\.yaml: .*{message}"):
        read_ownership(form(**changes), "own.yaml")


@given(st.decimals("0.01", "0.99", places=2), st.decimals("0.01", "0.99", places=2), st.decimals("0", "0.99", places=2))
def test_an_hour_costs_less_the_more_the_machine_is_used(one: Decimal, other: Decimal, residual: Decimal) -> None:
    """Monotone in utilisation, above the share, never negative."""
    low, high = sorted((one, other))
    hours = [
        read_ownership(form(utilisation_fraction=str(share), residual_fraction=str(residual)), "own.yaml").hourly
        for share in (low, high)
    ]

    assert hours[0] >= hours[1] > Decimal("1.20")


def test_command_shows_the_work_and_a_row_that_a_book_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`tta prices own`: the row it prints can be pasted."""
    (tmp_path / "own.yaml").write_text(yaml_of(FORM))

    assert main(["prices", "own", str(tmp_path / "own.yaml")]) == 0

    shown = capsys.readouterr().out
    assert "225000.00 / 26280 = 8.561644 USD per hour" in shown
    book = tmp_path / "prices.yaml"
    book.write_text('date: "2026-11-21"\nprices:\n' + shown.splitlines()[-1] + "\n")
    assert load_prices(book).prices == (read_ownership(FORM, "").price(),)


def test_command_refuses_a_bad_form_with_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence on standard error, even if the file is not YAML or is missing."""
    for name, content in (("full.yaml", yaml_of(form(utilisation_fraction="1"))), ("bad.yaml", "a: [")):
        (tmp_path / name).write_text(content)
    for name in ("full.yaml", "bad.yaml", "gone.yaml"):
        assert main(["prices", "own", str(tmp_path / name)]) == 2
        assert capsys.readouterr().err.startswith(f"tta: {tmp_path / name}: ")
