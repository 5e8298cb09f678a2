"""Time and money at their limits; what a result costs in whole is in test_cost_golden."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from harness.cost.money import billed_seconds, cost_usd, mean_cost_usd, rounded
from harness.errors import InputError

HOURLY = Decimal(3600)  # a dollar a second


def test_seconds_are_from_none_to_the_largest() -> None:
    """Both included; thirty thousand years at a dollar a second, to a millionth of one."""
    assert cost_usd(0.0, HOURLY) == 0
    assert cost_usd(1e12, HOURLY) == Decimal("1000000000000")
    assert str(cost_usd(1e12, Decimal("3600.0000000000000036"))) == "1000000000000.000001"


@pytest.mark.parametrize("seconds", [-1e-9, -1.0, 1e12 + 1e-3, math.inf, math.nan])
def test_what_is_no_duration_costs_nothing_that_could_be_told(seconds: float) -> None:
    """Among others that are, too; and a mean of nothing is none."""
    for values in ([seconds], [1.0, seconds], [seconds, 1.0]):
        with pytest.raises(InputError, match="s is not a duration"):
            mean_cost_usd(values, HOURLY)
    with pytest.raises(InputError, match="cost: nan s is not a duration"):
        mean_cost_usd([], HOURLY)


@pytest.mark.parametrize("price", ["-0.000001", "-1", "Infinity", "NaN"])
def test_what_is_no_price_is_an_error(price: str) -> None:
    """Nothing is a price."""
    with pytest.raises(InputError, match="USD per hour is not a price"):
        cost_usd(1.0, Decimal(price))
    assert cost_usd(1.0, Decimal(0)) == 0


def test_a_mean_is_rounded_once() -> None:
    """(1 + 2 + 4) / 3 x 1.5 = 3.5; a third is rounded down and two thirds up; half a millionth away from zero."""
    assert mean_cost_usd([1.0, 2.0, 4.0], HOURLY, 1.5) == Decimal("3.5")
    assert [mean_cost_usd([x, 0.0, 0.0], HOURLY) for x in (1.0, 2.0)] == [Decimal("0.333333"), Decimal("0.666667")]
    assert [str(rounded(Decimal(x))) for x in ("0.0000005", "0.00000049", "-0.0000005")] == [
        "0.000001",
        "0.000000",
        "-0.000001",
    ]


@pytest.mark.parametrize(
    ("seconds", "granularity_s", "minimum_s", "billed"),
    [
        ("59", 1, 60, 60),
        ("60", 1, 60, 60),
        ("60.1", 1, 60, 61),
        ("0", 60, 0, 0),
        ("61", 60, 0, 120),
        ("90", 60, 120, 120),
    ],
)
def test_a_bill_is_at_least_the_minimum_and_whole_steps(
    seconds: str, granularity_s: int, minimum_s: int, billed: int
) -> None:
    """Rounded up."""
    assert billed_seconds(Decimal(seconds), granularity_s, minimum_s) == billed
