"""Time and money at their limits; what a whole result costs is in test_cost_golden."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cost.money import USD_QUANTUM, billed_seconds, cost_usd, mean_cost_usd, rounded
from harness.errors import InputError

HOURLY = Decimal(3600)  # a dollar a second


@pytest.mark.parametrize(
    ("seconds", "usd_per_hour", "usd"),
    [
        pytest.param(3600, "55.04", "55.040000", id="an hour"),
        pytest.param(0.0, "55.04", "0.000000", id="no time"),
        pytest.param(3600, "0", "0.000000", id="no price"),
        pytest.param(0.1, "3600", "0.100000", id="a tenth is a tenth"),
        pytest.param(0.0018, "1", "0.000001", id="half a millionth is rounded up"),
        pytest.param(0.00179, "1", "0.000000", id="less than half is rounded down"),
        pytest.param(2230.98, "110.08", "68.218411", id="37.183 minutes on two nodes"),
        pytest.param(1e12, "3600.0000000000000036", "1000000000000.000001", id="the longest permitted duration"),
    ],
)
def test_cost_is_seconds_times_price(seconds: float, usd_per_hour: str, usd: str) -> None:
    """USD to a millionth, by hand."""
    assert str(cost_usd(seconds, Decimal(usd_per_hour))) == usd


@pytest.mark.parametrize("seconds", [-1e-9, -1.0, 1e12 + 1e-3, math.inf, math.nan])
def test_what_is_not_a_duration_has_no_cost(seconds: float) -> None:
    """Nor does a mean that includes it, or a mean of nothing."""
    for values in ([seconds], [1.0, seconds], [seconds, 1.0]):
        with pytest.raises(InputError, match="s is not a duration"):
            mean_cost_usd(values, HOURLY)
    with pytest.raises(InputError, match="cost: nan s is not a duration"):
        mean_cost_usd([], HOURLY)


@pytest.mark.parametrize("price", ["-0.000001", "-1", "Infinity", "NaN"])
def test_a_price_is_finite_and_not_negative(price: str) -> None:
    """Anything else is an error."""
    with pytest.raises(InputError, match="USD per hour is not a price"):
        cost_usd(1.0, Decimal(price))


def test_a_mean_is_rounded_once() -> None:
    """(1.5 + 3 + 6) / 3 = 3.5; a third is rounded down, two thirds up, and half a millionth away from zero.

    Three runs of 0.0006 s at 1 USD cost a sixth of a millionth each: none alone rounds up, nor does their mean.
    """
    assert mean_cost_usd([1.5, 3.0, 6.0], HOURLY) == Decimal("3.5")
    assert [mean_cost_usd([x, 0.0, 0.0], HOURLY) for x in (1.0, 2.0)] == [Decimal("0.333333"), Decimal("0.666667")]
    assert mean_cost_usd([0.0006] * 3, Decimal(1)) == 0
    assert [str(rounded(Decimal(x))) for x in ("0.0000005", "0.00000049", "-0.0000005")] == [
        "0.000001",
        "0.000000",
        "-0.000001",
    ]


def test_cost_does_not_depend_on_the_ambient_precision() -> None:
    """A caller's decimal context changes nothing."""
    with localcontext() as context:
        context.prec = 3
        usd = cost_usd(123456.789, Decimal("55.04"))

    assert getcontext().prec != 3
    assert str(usd) == "1887.517130"


@pytest.mark.parametrize(
    ("seconds", "granularity_s", "minimum_s", "billed"),
    [
        pytest.param("0.5", 1, 60, 60, id="the minimum"),
        pytest.param("60", 1, 60, 60, id="exactly the minimum"),
        pytest.param("60.000001", 1, 60, 61, id="a second more, by the second"),
        pytest.param("0", 60, 0, 0, id="nothing"),
        pytest.param("60", 60, 0, 60, id="exactly a minute"),
        pytest.param("60.1", 60, 0, 120, id="the second minute is begun"),
        pytest.param("90", 60, 120, 120, id="less than the minimum"),
    ],
)
def test_a_bill_is_at_least_the_minimum_and_whole_steps(
    seconds: str, granularity_s: int, minimum_s: int, billed: int
) -> None:
    """AWS and Google bill by the second, at least a minute; CoreWeave by the minute, without a minimum."""
    assert billed_seconds(Decimal(seconds), granularity_s, minimum_s) == billed


SECONDS = st.floats(min_value=0, max_value=1e9)
RATES = st.decimals(min_value=0, max_value=10_000, places=6)


@given(SECONDS, SECONDS, RATES, st.integers(1, 10_000), st.integers(1, 10_000))
def test_cost_grows_with_time_and_nodes_and_is_never_negative(
    one_s: float, other_s: float, rate: Decimal, few: int, many: int
) -> None:
    """More seconds or more nodes never cost less."""
    low_s, high_s = sorted((one_s, other_s))
    low, high = sorted((few, many))

    assert 0 <= cost_usd(low_s, rate * low) <= cost_usd(high_s, rate * low) <= cost_usd(high_s, rate * high)


@given(SECONDS, RATES)
def test_cost_is_within_half_a_millionth_of_the_exact_one(seconds: float, rate: Decimal) -> None:
    """Rounded once: never further from the exact quotient than half the last digit."""
    with localcontext() as context:
        context.prec = 100
        exact = Decimal(str(seconds)) * rate / 3600

        assert abs(cost_usd(seconds, rate) - exact) <= USD_QUANTUM / 2


@given(st.lists(SECONDS, min_size=1, max_size=9), RATES)
def test_mean_cost_does_not_depend_on_the_order_of_the_runs(seconds: list[float], rate: Decimal) -> None:
    """Exact sums have no order."""
    assert mean_cost_usd(seconds, rate) == mean_cost_usd(seconds[::-1], rate)


@given(st.decimals(0, 10**7, places=6), st.decimals(0, 10**7, places=6), st.integers(1, 3600), st.integers(0, 3600))
def test_billed_time_is_the_next_step_and_grows(one: Decimal, other: Decimal, step_s: int, least_s: int) -> None:
    """A multiple of the granularity, at least what was used and the minimum, and less than a step above them."""
    low, high = sorted((one, other))
    billed, least = billed_seconds(low, step_s, least_s), max(low, Decimal(least_s))

    assert billed % step_s == 0
    assert least <= billed < least + step_s
    assert billed <= billed_seconds(high, step_s, least_s)
