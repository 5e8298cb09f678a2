"""Whether new runs confirm a claim: non-inferiority of their samples to target, with a tolerance. Pure.

With x and y the logarithms of the samples to target of the claimed and of the new runs, L = log(1 + tolerance), s the
standard deviation of such a logarithm, and c the bound at which looking several times errs as rarely as looking once:

    theta = mean(y) - mean(x)        b = t(dof; Phi(c)) * s * sqrt(1 / n_x + 1 / n_y)

    reproduced        theta + b < L                     shown to be less than the tolerance worse than claimed
    not reproduced    theta - b > 0 and theta >= L      shown to be worse than claimed, and by the tolerance or more
    inconclusive      neither, after the last look

The scatter is that of the reference runs, pooled with that of the new ones and never that of the claim: runs that were
picked for their speed are too much alike. That no difference was found never confirms anything.

Source: S. J. Pocock, Biometrika 64 (1977), for several looks with one bound; here they are not equally far apart, and
the bound is computed from the information that each of them has.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

from harness.base.stats import student_quantile, variance

LOOKS = (5, 10, 20)
# Where the rules name no tolerance: the largest coefficient of variation between reference runs, and what it bears.
TOLERANCES = ((0.06, 0.10), (0.09, 0.15), (math.inf, 0.20))
LEVEL = 0.05  # at most this share of wrong "reproduced" at the tolerance, and of wrong "not reproduced"
EXPECTED_MISSES = 0.05  # in a benchmark as it should be, this share of runs misses the target,
MISSES_LEVEL = 0.025  # and more runs miss than are permitted in at most this share of results
_NODES = 48  # of the numerical integration; 24 give the same bound to four digits
_NORMAL = NormalDist()

Status = Literal["reproduced", "not reproduced", "inconclusive", "undecided"]


@dataclass(frozen=True, slots=True)
class Scatter:
    """The variance of a logarithm between runs, and the degrees of freedom with which it is known."""

    variance: float
    dof: int

    @property
    def variation(self) -> float:
        """The coefficient of variation of the quantity, whose logarithm is normal."""
        return math.sqrt(math.expm1(self.variance))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the runs so far say of the claim.

    status: "undecided" while another look is to come. num_claimed, num_new: the runs that reached the target, of those
        that were looked at; missed_claimed, missed_new: those that did not.
    ratio: geometric means of the samples to target, new to claimed. interval: its 90 % confidence interval. bound: the
        smallest tolerance with which it would be "reproduced" at this look. None where there is nothing to compare.
    p_misses: one-sided p-value of Fisher's exact test that the new runs miss no more often than the claimed.
    tolerance: with which it was judged; None before the first look. is_equivalent: the interval lies within the
        tolerance on either side (two one-sided tests). is_slower, is_faster:
        the ratio is above, below 1 beyond the bound of the look. None of the three is the verdict.
    why: the reason, in words.
    """

    status: Status
    why: str
    num_claimed: int
    num_new: int
    missed_claimed: int
    missed_new: int
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    bound: float | None = None
    p_misses: float | None = None
    is_equivalent: bool = False
    is_slower: bool = False
    is_faster: bool = False
    tolerance: float | None = None

    @property
    def num_runs(self) -> int:
        """The new runs that were looked at."""
        return self.num_new + self.missed_new


def tolerance_of(of_rules: float | None, reference: Scatter | None) -> float | None:
    """Return the tolerance of the rules, else the one that the reference's scatter bears; None without either."""
    if of_rules is not None or reference is None:
        return of_rules
    return next(bearable for most, bearable in TOLERANCES if reference.variation <= most)


def judge(
    claimed: Sequence[float | None],
    new: Sequence[float | None],
    reference: Scatter | None,
    tolerance: float,
    looks: Sequence[int] = LOOKS,
) -> Verdict:
    """Return the verdict of the first look that decides, else that of the last look that there was.

    Each look sees the first so many new runs, so that an interruption changes nothing; runs after a decision, and
    beyond the last look, are not seen.

    claimed, new: positive quantities (samples to target, seconds a sample), one a run, in the order of the runs; None:
    the run missed its target. reference: None where there is none; then the new runs alone give the scatter.
    """
    verdict = _undecided(claimed, (), f"the first look is at {looks[0]} runs")
    for number in (look for look in looks if look <= len(new)):
        verdict = _look(claimed, new[:number], reference, tolerance, looks)
        if verdict.status != "undecided":
            break
    return verdict


def _look(
    claimed: Sequence[float | None],
    new: Sequence[float | None],
    reference: Scatter | None,
    tolerance: float,
    looks: Sequence[int],
) -> Verdict:
    is_last = len(new) >= looks[-1]
    verdict = replace(
        _undecided(claimed, new, "neither shown to be within the tolerance nor to be worse"),
        status="inconclusive" if is_last else "undecided",
        tolerance=tolerance,
        p_misses=fisher(_missed(claimed), len(claimed), _missed(new), len(new)),
    )
    if verdict.missed_new > (most := permitted_misses(len(new))):
        why = f"{verdict.missed_new} of {len(new)} new runs missed the target; at most {most} may"
        return replace(verdict, status="not reproduced", why=why)
    x, y = ([math.log(run) for run in runs if run is not None] for runs in (claimed, new))
    known = [Scatter(variance(y), len(y) - 1)] if len(y) > 1 else []
    pooled = pool([*known, *([] if reference is None else [reference])])
    if not x or not y or pooled is None:
        return replace(verdict, why="too few runs reached the target")
    theta = math.fsum(y) / len(y) - math.fsum(x) / len(x)
    error = math.sqrt(pooled.variance * (1 / len(x) + 1 / len(y)))
    half = student_quantile(pooled.dof, 0.95) * error
    bound = student_quantile(pooled.dof, _NORMAL.cdf(common_bound(len(x), tuple(looks)))) * error
    limit, ratio, worst = math.log1p(tolerance), math.exp(theta), math.expm1(theta + bound)
    verdict = replace(
        verdict,
        ratio=ratio,
        interval=(math.exp(theta - half), math.exp(theta + half)),
        bound=worst,
        is_equivalent=-limit < theta - half and theta + half < limit,
        is_slower=theta - bound > 0,
        is_faster=theta + bound < 0,
    )
    if theta + bound < limit:
        if verdict.p_misses is not None and verdict.p_misses < LEVEL:
            return replace(verdict, why=f"more runs miss the target than in the claim (p {verdict.p_misses:.2g})")
        return replace(verdict, status="reproduced", why=f"at most {100 * worst:.1f} % worse than claimed")
    if verdict.is_slower and theta >= limit:
        return replace(verdict, status="not reproduced", why=f"{100 * (ratio - 1):.1f} % worse than claimed")
    return verdict


def _undecided(claimed: Sequence[float | None], new: Sequence[float | None], why: str) -> Verdict:
    missed = _missed(claimed), _missed(new)
    return Verdict("undecided", why, len(claimed) - missed[0], len(new) - missed[1], *missed)


def _missed(runs: Sequence[float | None]) -> int:
    return sum(run is None for run in runs)


def pool(scatters: Sequence[Scatter]) -> Scatter | None:
    """Return the scatter that all of them are estimates of; None where nothing is known."""
    dof = sum(scatter.dof for scatter in scatters)
    if dof == 0:
        return None
    return Scatter(math.fsum(scatter.variance * scatter.dof for scatter in scatters) / dof, dof)


def fisher(missed_claimed: int, num_claimed: int, missed_new: int, num_new: int) -> float:
    """Return the probability that the new runs have at least `missed_new` of all misses, if a miss is mere chance.

    Source: R. A. Fisher, Statistical Methods for Research Workers, 5th edition (1934), 21.02.
    """
    misses = missed_claimed + missed_new
    ways = math.comb(num_claimed + num_new, misses)
    more = range(missed_new, min(misses, num_new) + 1)
    return sum(math.comb(num_new, k) * math.comb(num_claimed, misses - k) for k in more) / ways


@functools.cache
def permitted_misses(num_runs: int) -> int:
    """Return how many of so many runs may miss the target: one of 5, two of 10, three of 20.

    Where runs miss in `EXPECTED_MISSES` of the cases, more of them miss in at most `MISSES_LEVEL`.
    """
    tail, most = 1.0, -1
    while tail > MISSES_LEVEL:
        most += 1
        share = math.comb(num_runs, most) * EXPECTED_MISSES**most * (1 - EXPECTED_MISSES) ** (num_runs - most)
        tail -= share
    return most


@functools.lru_cache(256)
def common_bound(num_claimed: int, looks: tuple[int, ...] = LOOKS, level: float = LEVEL) -> float:
    """Return the bound that the standard normal statistics of the looks exceed together with probability `level`.

    1.645 for a single look. The information of a look is 1 / (1 / num_claimed + 1 / num_new); between looks it grows by
    independent parts. Bisection on a recursive integration (P. Armitage, C. K. McPherson and B. C. Rowe, Journal of the
    Royal Statistical Society A 132, 1969), with Simpson's rule.
    """
    information = [1 / (1 / num_claimed + 1 / num) for num in looks]
    low, high = 1.0, 4.0
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (middle, high) if _exceeded(middle, information) > level else (low, middle)
    return (low + high) / 2


def _exceeded(bound: float, information: Sequence[float]) -> float:
    """Return the probability that a Brownian motion is above `bound` times its standard deviation at one of the looks.

    information: its variances at the looks, ascending.
    """
    grid = _grid(bound, information[0])
    densities = [_density(point, information[0]) for point, _ in grid]
    for before, now in itertools.pairwise(information):
        following = _grid(bound, now)
        densities = [
            math.fsum(
                weight * density * _density(point - earlier, now - before)
                for (earlier, weight), density in zip(grid, densities, strict=True)
            )
            for point, _ in following
        ]
        grid = following
    return 1 - math.fsum(weight * density for (_, weight), density in zip(grid, densities, strict=True))


def _grid(bound: float, information: float) -> list[tuple[float, float]]:
    """Return points from far below to the bound, and their weights in Simpson's rule."""
    deviation = math.sqrt(information)
    low, high = -6 * deviation, bound * deviation
    step = (high - low) / _NODES
    inner = [4 if number % 2 else 2 for number in range(1, _NODES)]
    weights = [1, *inner, 1]
    return [(low + number * step, weight * step / 3) for number, weight in enumerate(weights)]


def _density(distance: float, variance: float) -> float:
    return math.exp(-(distance**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)


def at_any_time(
    claimed: Sequence[float | None], new: Sequence[float | None], reference: Scatter, level: float = 2 * LEVEL
) -> tuple[float, float] | None:
    """Return an interval of the ratio that holds after each run at once, whenever one stops to look; None without runs.

    level: the probability that it ever leaves out the ratio, on either side; as that of the other intervals, 10 %.
    For watching only: it is wider than what `judge` uses at its looks. The scatter is taken as known. A mixture of
    normals, narrowest after 5 runs of 5 (H. Robbins, Annals of Mathematical Statistics 41, 1970).
    """
    x, y = ([math.log(run) for run in runs if run is not None] for runs in (claimed, new))
    if not x or not y:
        return None
    information, mixed = 1 / (1 / len(x) + 1 / len(y)), 1.0
    log_odds = math.log((information + mixed) / (mixed * level**2))
    half = math.sqrt(reference.variance * (information + mixed) * log_odds) / information
    theta = math.fsum(y) / len(y) - math.fsum(x) / len(x)
    return math.exp(theta - half), math.exp(theta + half)


def too_alike(claimed: Sequence[float | None], reference: Scatter) -> float | None:
    """Return the probability that honest runs are at least as alike as the claimed; None where there is no scatter.

    A small one is a reason to look closer, since runs may have been picked. It is never a verdict.
    """
    values = [math.log(run) for run in claimed if run is not None]
    if len(values) < 2 or reference.variance <= 0:
        return None
    dof = len(values) - 1
    return _chi_square_below(dof * variance(values) / reference.variance, dof)


def _chi_square_below(value: float, dof: int) -> float:
    """Return the probability that chi-square is below `value`: M. Abramowitz and I. A. Stegun, 6.5.29 and 26.4.19."""
    half, shape = value / 2, dof / 2
    if half <= 0:
        return 0.0
    term = total = 1.0
    number = 0
    while term > 1e-17 * total:
        number += 1
        term *= half / (shape + number)
        total += term
    return min(1.0, total * math.exp(shape * math.log(half) - half - math.lgamma(shape + 1)))
