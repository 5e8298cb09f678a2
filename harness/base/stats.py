"""Means, intervals and tests over a few values without their extremes: trimmed and Winsorised statistics. Pure.

`drop` is how many of the smallest and how many of the largest values are cut. A value that was never reached is given
as infinity; at most `drop` of those are permitted, so that all of them are cut and no result is infinite.

Sources: J. W. Tukey and D. H. McLaughlin, "Less vulnerable confidence and significance procedures for location
based on a single sample", Sankhya A 25 (1963); K. K. Yuen, "The two-sample trimmed t for unequal population
variances", Biometrika 61 (1974).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TypeVar


def kept(values: Sequence[float], drop: int) -> list[float]:
    """Return the values in ascending order without the `drop` smallest and the `drop` largest."""
    assert len(values) > 2 * drop >= 0, f"{len(values)} values cannot lose {drop} at each end"
    return sorted(values)[drop : len(values) - drop]


def trimmed_mean(values: Sequence[float], drop: int) -> float:
    """Return the mean of what is kept; with `drop` 1 this is MLPerf's olympic mean."""
    rest = kept(values, drop)
    return math.fsum(rest) / len(rest)


def variance(values: Sequence[float]) -> float:
    """Return the sample variance (divisor n - 1)."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def winsorised_variance(values: Sequence[float], drop: int) -> float:
    """Return the sample variance after every value that is cut has become the nearest value that is kept.

    An infinite value becomes the largest kept one: its own size is not known, and not needed.
    """
    rest = kept(values, drop)
    return variance([rest[0]] * drop + rest + [rest[-1]] * drop)


def trimmed_interval(values: Sequence[float], drop: int, confidence: float = 0.95) -> tuple[float, float] | None:
    """Return the confidence interval of the trimmed mean (Tukey and McLaughlin): Student's t with h - 1 degrees of
    freedom, h being the number of values kept. None if h is 1.
    """
    num_kept = len(values) - 2 * drop
    if num_kept < 2:
        return None
    mean = trimmed_mean(values, drop)
    # s_w / ((1 - 2 g / n) sqrt(n)), with 1 - 2 g / n = h / n
    error = math.sqrt(winsorised_variance(values, drop) * len(values)) / num_kept
    half = student_quantile(num_kept - 1, (1 + confidence) / 2) * error
    return mean - half, mean + half


def p_not_slower(leader: Sequence[float], other: Sequence[float], drop: int) -> float | None:
    """Return the one-sided p-value of Yuen's test: how easily `other` would look this much slower if it were not.

    Welch's t for trimmed means. Without any spread the means decide: 0 if `other` is slower, else 1.
    None if fewer than two values are kept on a side.
    """
    from scipy.special import stdtr

    errors, weights = [], []
    for values in (leader, other):
        num_kept = len(values) - 2 * drop
        if num_kept < 2:
            return None
        error = (len(values) - 1) * winsorised_variance(values, drop) / (num_kept * (num_kept - 1))
        errors.append(error)
        weights.append(error**2 / (num_kept - 1))
    difference = trimmed_mean(leader, drop) - trimmed_mean(other, drop)
    if sum(weights) == 0:
        return 0.0 if difference < 0 else 1.0
    return float(stdtr(sum(errors) ** 2 / sum(weights), difference / math.sqrt(sum(errors))))


@functools.lru_cache(maxsize=1024)
def student_quantile(dof: int, share: float) -> float:
    """Return the quantile `share` of Student's t, for whole degrees of freedom and a share from 0.5 to below 1.

    Bisection, to the last bit, on the finite sum that the distribution is for whole degrees of freedom. scipy's
    `stdtrit` gives the same values, but importing it takes longer than judging twenty logs.

    Source: M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions (1964), 26.7.3 and 26.7.4.
    """
    low, high = 0.0, math.pi / 2  # bounds of the angle whose tangent is t / sqrt(dof)
    while low < (middle := (low + high) / 2) < high:
        if (1 + _within(middle, dof)) / 2 < share:
            low = middle
        else:
            high = middle
    return math.tan(high) * math.sqrt(dof)


def _within(angle: float, dof: int) -> float:
    """Return the share of Student's t between -t and t, where tan(angle) = t / sqrt(dof)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    term, total = (cosine, 0.0) if dof % 2 else (1.0, 0.0)
    for k in range(3 if dof % 2 else 2, dof + 1, 2):
        total += term
        term *= cosine**2 * (k - 1) / k
    return 2 / math.pi * (angle + sine * total) if dof % 2 else sine * total


Item = TypeVar("Item")


def rank_bands(items: Sequence[Item], is_behind: Callable[[Item, Item], bool]) -> list[int]:
    """The rank of each of `items`, which are sorted from best to worst; items that cannot be told apart share one.

    The best item leads the first band. An item belongs to the band of the item before it unless
    `is_behind(item, leader)` of that band's leader; then it leads the next band. A band's rank is 1 plus the number
    of items ahead of it: 1, 1, 3. Only the leader is compared, so the last of one band and the first of the next may
    themselves be indistinguishable.
    """
    found: list[int] = []
    leader: Item | None = None
    for ahead, item in enumerate(items):
        if leader is None or is_behind(item, leader):
            leader = item
            found.append(ahead + 1)
        else:
            found.append(found[-1])
    return found
