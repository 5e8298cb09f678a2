"""Median, spread and straight lines of measurements, and the parts of a training step. Pure.

Times of steps are not normal: a step that the system interrupted is longer, none is shorter. So they are summarised by
their median and their median absolute deviation (MAD), and not by a mean.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.base.stats import student_quantile

DATA, FORWARD, BACKWARD, OPTIMIZER, OTHER = "data", "forward", "backward", "optimizer", "other"
PHASES = (DATA, FORWARD, BACKWARD, OPTIMIZER, OTHER)
# What a step is divided at. The end of a network's forward pass is none: its loss belongs to it, up to `BACKWARD`.
BEGIN, BACKWARD_END, OPTIMIZER_END, END = "begin", "backward_end", "optimizer_end", "end"


@dataclass(frozen=True, slots=True)
class Summary:
    """Measurements of one quantity.

    median: theirs. mad: median absolute deviation from it, not scaled. low, high: the quartiles. num: how many.
    """

    median: float
    mad: float
    low: float
    high: float
    num: int

    @property
    def iqr(self) -> float:
        """The interquartile range."""
        return self.high - self.low


def summary(values: Sequence[float]) -> Summary:
    """Summarise at least one value."""
    middle = statistics.median(values)
    mad = statistics.median(abs(value - middle) for value in values)
    if len(values) == 1:
        return Summary(middle, mad, middle, middle, 1)
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Summary(middle, mad, low, high, len(values))


def phase_between(before: str, after: str) -> str:
    """The phase of the time between two marks of a step that follow each other.

    What leads to a forward pass is data: fetching and preparing the batch, and clearing the gradients. What leads from
    the gradients to the optimizer (their clipping) is the optimizer's. What leads to the end is nobody's.
    """
    if after == END:
        return OTHER
    if before in (FORWARD, BACKWARD, OPTIMIZER):
        return before
    return {FORWARD: DATA, BACKWARD: FORWARD}.get(after, OPTIMIZER)


def attributed(marks: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Seconds of each phase of a step; their sum is the step's.

    marks: name and time in seconds, in order, from `BEGIN` to `END`.
    """
    found = dict.fromkeys(PHASES, 0.0)
    for (before, start_s), (after, stop_s) in pairwise(marks):
        found[phase_between(before, after)] += stop_s - start_s
    return found


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """The length of the union of intervals."""
    total, reached = 0.0, -math.inf
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, reached))
        reached = max(reached, stop)
    return total


@dataclass(frozen=True, slots=True)
class StraightLine:
    """y = intercept + slope * x, by least squares.

    intercept_interval, slope_interval: 95 % confidence intervals, by Student's t; None with two points, which any line
    fits. r_squared: the share of the variance of y that the line explains; 1 where y does not vary.
    """

    intercept: float
    slope: float
    intercept_interval: tuple[float, float] | None
    slope_interval: tuple[float, float] | None
    r_squared: float
    num: int


def straight_line(points: Sequence[tuple[float, float]]) -> StraightLine | None:
    """Fit a line; None with fewer than two different x.

    Source: N. R. Draper and H. Smith, Applied Regression Analysis, 3rd edition (1998), chapter 1.
    """
    if len({x for x, _ in points}) < 2:
        return None
    num = len(points)
    mean_x, mean_y = math.fsum(x for x, _ in points) / num, math.fsum(y for _, y in points) / num
    spread = math.fsum((x - mean_x) ** 2 for x, _ in points)
    slope = math.fsum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    intercept = mean_y - slope * mean_x
    residual = math.fsum((y - intercept - slope * x) ** 2 for x, y in points)
    total = math.fsum((y - mean_y) ** 2 for _, y in points)
    r_squared = 1 - residual / total if total > 0 else 1.0
    if num == 2:
        return StraightLine(intercept, slope, None, None, r_squared, num)
    variance = residual / (num - 2)
    quantile = student_quantile(num - 2, 0.975)
    half_slope = quantile * math.sqrt(variance / spread)
    half = quantile * math.sqrt(variance * (1 / num + mean_x**2 / spread))
    return StraightLine(
        intercept,
        slope,
        (intercept - half, intercept + half),
        (slope - half_slope, slope + half_slope),
        r_squared,
        num,
    )
