"""Reference convergence points: did a result need significantly fewer epochs or samples than the reference? Pure.

The statistics serve `tta`'s own benchmarks too (`harness.scoring.convergence`); `judge` is for results of MLPerf
rounds. There are two definitions of what is acceptable:

"rules"   the text of the rules: the spread is that of the reference runs that are averaged, and as many of the
          submission's runs count as are averaged.
"code"    MLCommons' rcp_checker: the spread is that of all reference runs, the dropped ones included; the number of
          submitted runs minus two counts, even for 3D U-Net, which drops eight; and some benchmarks have an allowance
          (`RoundBenchmark.convergence_allowance`). This is the default, because the rounds were judged by it.

Both use the population standard deviation (divided by n). The rules' own example, ten reference runs of
16 14 16 17 16 16 15 16 15 16 epochs and a submission of five runs: the mean is 15.75; "rules" accepts 15.21, 3.53 %
faster, and "code" 14.78, 6.56 % faster. A submission with a mean of 15.0 fails by "rules" and passes by "code".

Source: MLPerf training rules, "Reference Convergence Points" and its appendix; mlperf_logging 4.1.68, rcp_checker.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.base.stats import kept, student_quantile, trimmed_mean
from harness.base.values import is_whole
from harness.mlperf.compliance import quoted
from harness.mlperf.model import RoundBenchmark, RoundReference

Definition = Literal["code", "rules"]
Basis = Literal["exact", "interpolated", "larger", "none"]
CONFIDENCE = 0.95  # one-sided; the rules' p-value of 0.05
ROUNDING = 1e-9  # relative: an interpolated mean is not exact, and a mean equal to the limit passes


@dataclass(frozen=True, slots=True)
class Point:
    """The reference at one batch size: trimmed mean and standard deviation of epochs or samples to target.

    num_points: the number of values behind the mean, for the t-test.
    """

    batch_size: int
    mean: float
    spread: float
    num_points: int


def reference_points(runs: Iterable[tuple[int, Sequence[float]]], drop: int, definition: Definition) -> list[Point]:
    """Return the points of reference runs, pruned, in ascending order of batch size.

    runs: a batch size and the epochs or samples to target of its runs. Where fewer than two are left after dropping
    the extremes, there is no point.
    """
    ordered = sorted(runs, key=lambda item: item[0])
    return prune([_point(size, values, drop, definition) for size, values in ordered if len(values) - 2 * drop >= 2])


def _point(batch_size: int, values: Sequence[float], drop: int, definition: Definition) -> Point:
    spread_over = values if definition == "code" else kept(values, drop)
    centre = math.fsum(spread_over) / len(spread_over)
    spread = math.sqrt(math.fsum((value - centre) ** 2 for value in spread_over) / len(spread_over))
    return Point(batch_size, trimmed_mean(values, drop), spread, len(values) - 2 * drop)


def prune(points: Sequence[Point]) -> list[Point]:
    """Return the points, in ascending order of batch size, without those that a neighbour makes implausible.

    Larger batches do not converge in fewer samples, so points below the fastest batch size are removed, and then
    every point that is slower than the line between its neighbours, in one sweep from small to large. The sweep does
    not go back, so what remains need not be convex; rcp_checker does the same.
    """
    fastest = min(points, key=lambda point: point.mean, default=None)
    rest = [point for point in points if fastest is not None and point.batch_size >= fastest.batch_size]
    i = 1
    while i < len(rest) - 1:
        if rest[i].mean > interpolate(rest[i - 1], rest[i + 1], rest[i].batch_size, rest[i].num_points).mean:
            del rest[i]
        else:
            i += 1
    return rest


def interpolate(low: Point, high: Point, batch_size: int, num_points: int) -> Point:
    """Return the point at `batch_size` on the line between two; mean and spread are linear in the batch size."""
    share = (batch_size - low.batch_size) / (high.batch_size - low.batch_size)
    mean = low.mean + (high.mean - low.mean) * share
    return Point(batch_size, mean, low.spread + (high.spread - low.spread) * share, num_points)


def neighbours(points: Sequence[Point], batch_size: int) -> tuple[Point | None, Point | None]:
    """Return the last of the ascending `points` below `batch_size` and the first at or above it."""
    i = bisect_left(points, batch_size, key=lambda point: point.batch_size)
    return points[i - 1] if i else None, points[i] if i < len(points) else None


def reference_at(points: Sequence[Point], batch_size: int, num_runs: int) -> tuple[Point | None, Basis]:
    """Return what to compare a result of `num_runs` runs at `batch_size` with, and how it was found.

    It is the point of that batch size; else the line between the neighbours, which counts as twice as many values as
    the result has runs; below the smallest batch size, the smallest. Above the largest there is none.
    """
    lower, upper = neighbours(points, batch_size)
    if upper is None:
        return None, "none"
    if upper.batch_size == batch_size:
        return upper, "exact"
    if lower is None:
        return upper, "larger"
    return interpolate(lower, upper, batch_size, 2 * num_runs), "interpolated"


def acceptable_mean(point: Point, num_submitted: int) -> float:
    """Return the smallest mean of `num_submitted` kept runs that is not significantly below the reference's.

    Solved for the mean, Student's two-sample t-test with equal variances gives
    mean - t(0.95, n_ref + n_sub - 2) * s * sqrt(1 / n_ref + 1 / n_sub); rcp_checker finds it by bisection.
    """
    quantile = student_quantile(point.num_points + num_submitted - 2, CONFIDENCE)
    return max(0.0, point.mean - quantile * point.spread * math.sqrt(1 / point.num_points + 1 / num_submitted))


def is_acceptable(mean: float, limit: float) -> bool:
    """Whether a result's mean is at or above the acceptable one, but for rounding."""
    return mean >= limit * (1 - ROUNDING)


def normalisation(point: Point, mean: float) -> float:
    """Return what a score is multiplied by: the reference's mean over the result's, at least 1."""
    return max(1.0, point.mean / mean) if mean > 0 else 1.0


@dataclass(frozen=True, slots=True)
class RoundVerdict:
    """How the convergence of a result compares with the reference.

    status: "pass"; "fail" (faster than acceptable); "missing" (no reference runs at this batch size or around it);
        "unknown" (the logs do not say what would have to be compared).
    basis: the reference at this batch size, between two, at the next larger one, or none.
    reference_mean, acceptable_mean, mean: in epochs or samples, as the reference counts; None where there is none.
    factor: reference_mean / mean where that is above 1 and the result passes, else 1; the score is multiplied by it.
    """

    status: Literal["pass", "fail", "missing", "unknown"]
    basis: Basis
    why: str
    reference_mean: float | None = None
    acceptable_mean: float | None = None
    mean: float | None = None
    factor: float = 1.0

    @property
    def max_speedup(self) -> float | None:
        """How many times as fast as the reference a result may be; None if any speed would pass."""
        if not self.acceptable_mean:
            return None
        assert self.reference_mean is not None
        return self.reference_mean / self.acceptable_mean


def judge(
    amounts: Sequence[float | None],
    batch_size: object,
    benchmark: RoundBenchmark,
    version: str,
    definition: Definition = "code",
) -> RoundVerdict:
    """Compare the epochs or samples to target of a result's runs (None: not reached) with the reference.

    As many extremes are dropped as the benchmark drops, however many runs there are. Below the smallest reference
    batch size, a result that is not too fast for that one passes; one that is too fast for it has no reference.
    """
    if isinstance(batch_size, float) and batch_size.is_integer():
        batch_size = int(batch_size)  # MLCommons' program takes 256.0 for 256
    if not is_whole(batch_size):
        why = f"global_batch_size is {quoted(batch_size)}; it must be a whole number"
        if batch_size is None:
            why = "the logs have no global_batch_size, or not all the same"
        return RoundVerdict("unknown", "none", why)
    missed = sum(amount is None for amount in amounts)
    if missed > benchmark.drop:
        return RoundVerdict("unknown", "none", f"{missed} of {len(amounts)} runs did not converge")
    if len(amounts) <= 2 * benchmark.drop:
        return RoundVerdict("unknown", "none", f"too few runs ({len(amounts)}) to leave out the extremes")
    mean = trimmed_mean([math.inf if amount is None else amount for amount in amounts], benchmark.drop)
    points = round_points(benchmark.convergence, benchmark.drop, definition)
    if not points:
        return RoundVerdict("missing", "none", f"round {version} has no reference runs of {benchmark.name}", mean=mean)
    point, basis = reference_at(points, batch_size, benchmark.num_runs)
    if point is not None:
        verdict = _compare(point, mean, benchmark, definition, basis)
        if basis != "larger" or verdict.status == "pass":
            return verdict
        where = f"below the smallest of the reference, {points[0].batch_size}"
    else:
        where = f"above the largest of the reference, {points[-1].batch_size}"
    return RoundVerdict("missing", "none", f"no reference runs at batch size {batch_size}, {where}", mean=mean)


def round_points(references: Iterable[RoundReference], drop: int, definition: Definition) -> list[Point]:
    """Return the points of a benchmark's reference runs, as `reference_points`."""
    return reference_points([(item.global_batch_size, item.points) for item in references], drop, definition)


def _compare(
    point: Point, mean: float, benchmark: RoundBenchmark, definition: Definition, basis: Basis
) -> RoundVerdict:
    num_dropped = 2 if definition == "code" else 2 * benchmark.drop
    limit = acceptable_mean(point, benchmark.num_runs - num_dropped)
    if definition == "code":
        limit = max(0.0, limit - benchmark.convergence_allowance)
    is_passed = is_acceptable(mean, limit)
    where = {"exact": "at", "interpolated": "interpolated to", "larger": "at the larger"}[basis]
    return RoundVerdict(
        status="pass" if is_passed else "fail",
        basis=basis,
        why=f"the reference {where} batch size {point.batch_size}",
        reference_mean=point.mean,
        acceptable_mean=limit,
        mean=mean,
        factor=normalisation(point, mean) if is_passed else 1.0,
    )
