"""Trimmed means, intervals on logarithms, comparisons of pairs, and ranks. Pure.

`drop` is how many of the smallest and how many of the largest values are cut. A value that was never reached is given
as infinity; at most `drop` of those are permitted, so that all of them are cut and no result is infinite.

Source: J. W. Tukey and D. H. McLaughlin, "Less vulnerable confidence and significance procedures for location based on
a single sample", Sankhya A 25 (1963).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist


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


def trimming_cost(num_values: int, drop: float) -> float:
    """Return the variance of a trimmed mean of normal values, relative to that of their mean: 1 without trimming.

    Asymptotic (P. J. Huber, Robust Statistics, 1981, 3.3); for 5 values without the extremes 1.145, exactly 1.136.
    drop: half the number of values that are left out.
    """
    if drop == 0:
        return 1.0
    normal = NormalDist()
    share = drop / num_values
    edge = normal.inv_cdf(1 - share)
    return (1 - 2 * share - 2 * edge * normal.pdf(edge) + 2 * share * edge**2) / (1 - 2 * share) ** 2


def trimmed_error(values: Sequence[float], drop: int) -> tuple[tuple[float, float], ...]:
    """Return the variance of the trimmed mean and its degrees of freedom (Tukey and McLaughlin), as `Estimate.errors`.

    With h of n values kept, the variance is n * s_w^2 / h^2, with h - 1 degrees of freedom. Empty if h is 1.
    """
    num_kept = len(values) - 2 * drop
    if num_kept < 2:
        return ()
    return ((winsorised_variance(values, drop) * len(values) / num_kept**2, num_kept - 1),)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A positive quantity and the errors of its logarithm.

    errors: of each independent source, the variance of the logarithm of `value` that it causes and the degrees of
        freedom with which that variance is known. Empty where nothing is known of the error.
    """

    value: float
    errors: tuple[tuple[float, float], ...]

    def interval(self, confidence: float = 0.95) -> tuple[float, float] | None:
        """Return the confidence interval, by Student's t on the logarithm; None where nothing is known of the error."""
        if not self.errors:
            return None
        half = student_quantile(_dof(self.errors), (1 + confidence) / 2) * math.sqrt(_variance(self.errors))
        return self.value * math.exp(-half), self.value * math.exp(half)


def p_equal(one: Estimate, other: Estimate) -> float:
    """Return the two-sided p-value of Welch's t-test on logarithms.

    It is the probability of a difference at least this large between equal quantities; 1 where nothing is known
    of an error. Without any error the values decide: 0 if they differ.

    Source: B. L. Welch, Biometrika 34 (1947); F. E. Satterthwaite, Biometrics Bulletin 2 (1946).
    """
    if not one.errors or not other.errors:
        return 1.0
    errors = one.errors + other.errors
    variance = _variance(errors)
    difference = abs(math.log(one.value) - math.log(other.value))
    if variance == 0:
        return 1.0 if difference == 0 else 0.0
    return 2 * upper_tail(_dof(errors), difference / math.sqrt(variance))


def rank_intervals(estimates: Sequence[Estimate], level: float = 0.05) -> list[tuple[int, int]]:
    """Return the first and the last rank that each estimate may have; rank 1 is the smallest value.

    All intervals hold jointly with probability 1 - level: every pair is compared, by Holm's step-down procedure over
    all pairs. The first rank is 1 plus the number of estimates that are significantly smaller, the last is the number
    of all less those that are significantly larger.

    Source: S. Holm, Scandinavian Journal of Statistics 6 (1979); M. Mogstad, J. P. Romano, A. M. Shaikh and
    D. Wilhelm, "Inference for ranks", Review of Economic Studies 91 (2024).
    """
    pairs = sorted((p_equal(*pair), i, j) for (i, j), pair in _pairs(estimates))
    first, last = [1] * len(estimates), [len(estimates)] * len(estimates)
    for num_done, (p_value, i, j) in enumerate(pairs):
        if p_value * (len(pairs) - num_done) > level:
            break
        smaller, larger = (i, j) if estimates[i].value < estimates[j].value else (j, i)
        first[larger] += 1
        last[smaller] -= 1
    return list(zip(first, last, strict=True))


def _pairs(estimates: Sequence[Estimate]) -> Iterator[tuple[tuple[int, int], tuple[Estimate, Estimate]]]:
    return zip(itertools.combinations(range(len(estimates)), 2), itertools.combinations(estimates, 2), strict=True)


def _variance(errors: Sequence[tuple[float, float]]) -> float:
    return math.fsum(variance for variance, _ in errors)


def _dof(errors: Sequence[tuple[float, float]]) -> int:
    """The degrees of freedom of a sum of variances (Welch and Satterthwaite), rounded down, from 1 to 1,000."""
    weights = math.fsum(variance**2 / dof for variance, dof in errors)
    dof = _variance(errors) ** 2 / weights if weights > 0 else min(dof for _, dof in errors)
    return max(1, min(1000, math.floor(dof * (1 + 1e-12))))


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


def upper_tail(dof: int, t: float) -> float:
    """Return the probability that Student's t, of whole degrees of freedom, is above `t`; absolute error 1e-14."""
    half = max(0.0, 1 - _within(math.atan(abs(t) / math.sqrt(dof)), dof)) / 2
    return half if t >= 0 else 1 - half


def binomial_interval(num_hits: int, num_trials: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a share of which `num_hits` of `num_trials` were seen; 0 to 1 without trials.

    Source: C. J. Clopper and E. S. Pearson, Biometrika 26 (1934).
    """
    tail = 0.025
    # The numbers of ways to hit are too large for a float, their logarithms are not.
    factorials = [math.lgamma(num + 1) for num in range(num_trials + 1)]
    ways = [factorials[-1] - factorials[num] - factorials[num_trials - num] for num in range(num_hits + 1)]

    def at_most(hits: int, share: float) -> float:
        hit, miss = math.log(share), math.log1p(-share)
        return math.fsum(math.exp(ways[num] + num * hit + (num_trials - num) * miss) for num in range(hits + 1))

    def edge(hits: int, chance: float) -> float:
        """The share of which at most `hits` are seen with this chance."""
        low, high = 0.0, 1.0
        while low < (middle := (low + high) / 2) < high:
            if at_most(hits, middle) > chance:
                low = middle
            else:
                high = middle
        return low

    low = 0.0 if num_hits == 0 else edge(num_hits - 1, 1 - tail)
    return low, 1.0 if num_hits == num_trials else edge(num_hits, tail)
