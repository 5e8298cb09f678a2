"""Exact decimal arithmetic on time and money: rounded once, at the end, to a millionth of a dollar. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_HALF_UP, Context, Decimal

from harness.errors import InputError

USD_QUANTUM = Decimal("0.000001")  # a mini run of ten seconds on two cores costs about 0.0003 USD
MAX_SECONDS = 1e12
EXACT = Context(prec=60)
_HOUR_S = Decimal(3600)


def cost_usd(seconds: float, usd_per_hour: Decimal) -> Decimal:
    """Return the USD for exactly `seconds`, without a provider's granularity or minimum.

    Decimal throughout; rounded once, at the end, to a millionth of a dollar, halves away from zero. The seconds enter
    in their shortest decimal form: 0.1 s is exactly a tenth.

    Raises:
        InputError: `seconds` is not from 0 to MAX_SECONDS, or the price is negative or not finite.
    """
    return mean_cost_usd([seconds], usd_per_hour)


def mean_cost_usd(seconds: Sequence[float], usd_per_hour: Decimal) -> Decimal:
    """Return the mean cost of the durations `seconds`, rounded once as in `cost_usd`.

    Raises:
        InputError: as `cost_usd`, or no durations are given.
    """
    for value in seconds or [float("nan")]:
        if not 0 <= value <= MAX_SECONDS:  # NaN is neither
            raise InputError(f"cost: {value} s is not a duration")
    if not usd_per_hour.is_finite() or usd_per_hour < 0:
        raise InputError(f"cost: {usd_per_hour} USD per hour is not a price")
    total_s = Decimal(0)
    for value in seconds:
        total_s = EXACT.add(total_s, Decimal(str(value)))
    exact = EXACT.multiply(total_s, usd_per_hour)
    return rounded(EXACT.divide(exact, EXACT.multiply(_HOUR_S, Decimal(len(seconds)))))


def rounded(usd: Decimal) -> Decimal:
    """Return `usd` rounded to a millionth of a dollar, halves away from zero."""
    return usd.quantize(USD_QUANTUM, rounding=ROUND_HALF_UP, context=EXACT)


def billed_seconds(seconds: Decimal, granularity_s: int, minimum_s: int) -> Decimal:
    """Return the seconds that a provider bills for `seconds` of one node: at least the minimum, rounded up to steps."""
    steps = EXACT.divide(max(seconds, Decimal(minimum_s)), Decimal(granularity_s))
    return EXACT.multiply(steps.to_integral_value(ROUND_CEILING, EXACT), Decimal(granularity_s))
