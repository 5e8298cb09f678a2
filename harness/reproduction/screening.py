"""Half a run instead of a whole one: by which factor the quality of new runs rises slower than that of claimed ones.

The factor of a run is the one by which its curve must be compressed in samples to lie, by least squares over the
evaluations, on the mean curve of others. Its scatter is that of the claimed runs against each other, over the same
half. It saves half of the time and never gives a verdict: what happens near the target is not seen. Pure.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.base.stats import student_quantile, variance

Curve = Sequence[tuple[float, float]]
"""Samples, ascending, and quality at each evaluation of a run."""

FACTORS = (0.5, 2.0)  # the range that is searched
_STEPS = 60  # of golden section: to 1e-12 of the range
_GOLDEN = (math.sqrt(5) - 1) / 2
_COARSE = 61  # factors tried first, evenly spaced in their logarithms: the sum of squares may have several minima


@dataclass(frozen=True, slots=True)
class Screening:
    """ratio: geometric mean of the new runs' factors. interval: its 90 % confidence interval; None with a single
    claimed run, whose scatter is not known. num_claimed, num_new: of the runs with at least two evaluations."""

    ratio: float
    interval: tuple[float, float] | None
    num_claimed: int
    num_new: int


def screen(claimed: Sequence[Curve], new: Sequence[Curve], most: float) -> Screening | None:
    """Return how much slower new runs rise than claimed ones; None where curves are too short to compare.

    most: samples up to which the curves are compared.
    """
    then, now = ([cut for curve in curves if len(cut := _until(curve, most)) > 1] for curves in (claimed, new))
    if not then or not now:
        return None
    logs = [math.log(factor_of(curve, then)) for curve in now]
    ratio = math.fsum(logs) / len(logs)
    if len(then) < 3:  # of two, each is the mean of the others of the other: the same factor twice
        return Screening(math.exp(ratio), None, len(then), len(now))
    own = [math.log(factor_of(curve, [*then[:index], *then[index + 1 :]])) for index, curve in enumerate(then)]
    # A factor against the mean of k others varies by 1 + 1/k times what a single run does.
    single = variance(own) / (1 + 1 / (len(own) - 1))
    error = math.sqrt(single * (1 / len(then) + 1 / len(now)))
    half = student_quantile(len(own) - 1, 0.95) * error
    return Screening(math.exp(ratio), (math.exp(ratio - half), math.exp(ratio + half)), len(then), len(now))


def _until(curve: Curve, most: float) -> Curve:
    return [point for point in curve if point[0] <= most]


def factor_of(curve: Curve, others: Sequence[Curve]) -> float:
    """Return the factor by which a run is slower than the mean of the others, by least squares over its evaluations."""

    def squares(log_factor: float) -> float:
        factor = math.exp(log_factor)
        found = [
            (quality - expected) ** 2
            for samples, quality in curve
            if (expected := _mean_at(others, samples / factor)) is not None
        ]
        return math.fsum(found) / len(found) if found else math.inf

    low, high = map(math.log, FACTORS)
    tried = [low + (high - low) * number / (_COARSE - 1) for number in range(_COARSE)]
    best = min(range(_COARSE), key=lambda number: squares(tried[number]))
    left, right = tried[max(0, best - 1)], tried[min(_COARSE - 1, best + 1)]
    for _ in range(_STEPS):
        near, far = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
        left, right = (left, far) if squares(near) <= squares(far) else (near, right)
    return math.exp((left + right) / 2)


def _mean_at(curves: Sequence[Curve], samples: float) -> float | None:
    """The mean quality of curves at so many samples, linear between evaluations; None beyond any of them."""
    found = []
    for curve in curves:
        if not curve[0][0] <= samples <= curve[-1][0]:
            return None
        for (before, low), (after, high) in itertools.pairwise(curve):
            if before <= samples <= after:
                share = (samples - before) / (after - before) if after > before else 1.0
                found.append(low + share * (high - low))
                break
    return math.fsum(found) / len(found) if found else None
