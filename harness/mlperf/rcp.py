"""Did a result of an MLPerf round need significantly fewer epochs or samples than the reference? Pure.

Two definitions of what is allowed, by name:

"rules"   the rules' text: the spread is that of the reference's runs that are averaged, and as many of the
          submission's runs count as are averaged.
"code"    MLCommons' rcp_checker: the spread is that of all the reference's runs, the cut ones too; two fewer than
          the submission's runs count, for 3D U-Net as well, where eight are cut; and, from round 5.0 on,
          Llama 3.1 405B may be one evaluation faster still. The default: by it the rounds were judged.

Both take the population's standard deviation (divided by n). The rules' own example, ten runs of
16 14 16 17 16 16 15 16 15 16 epochs and a submission of five: mean 15.75; "rules" allows 15.21, 3.53 % faster,
"code" 14.78, 6.56 % faster. A submission of mean 15.0 fails by the one and passes by the other.

Source: MLPerf training rules, "Reference Convergence Points" and its appendix; mlperf_logging 4.1.68, rcp_checker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.base.stats import kept, student_quantile, trimmed_mean
from harness.base.values import is_whole
from harness.mlperf.compliance import shown
from harness.mlperf.model import RoundBenchmark, RoundReference

Definition = Literal["code", "rules"]
DEFINITIONS: tuple[Definition, ...] = ("code", "rules")

CONFIDENCE = 0.95  # one-sided; the rules' p-value of 0.05
ROUNDING = 1e-9  # relative: an interpolated mean is not exact, and equal to the limit passes


@dataclass(frozen=True, slots=True)
class Point:
    """The reference at one batch size: trimmed mean and standard deviation of samples to target.

    num_points: how many values the mean counts as in the t-test.
    """

    batch_size: int
    mean: float
    spread: float
    num_points: int


def reference_points(samples: Mapping[int, Sequence[float]], drop: int, definition: Definition) -> list[Point]:
    """One point per batch size, ascending, of the samples to target of its runs.

    A batch size of which fewer than two runs are kept is left out.
    """
    return [
        _point(batch_size, values, drop, definition)
        for batch_size, values in sorted(samples.items())
        if len(values) - 2 * drop >= 2
    ]


def _point(batch_size: int, values: Sequence[float], drop: int, definition: Definition) -> Point:
    spread_over = values if definition == "code" else kept(values, drop)
    centre = math.fsum(spread_over) / len(spread_over)
    spread = math.sqrt(math.fsum((value - centre) ** 2 for value in spread_over) / len(spread_over))
    return Point(batch_size, trimmed_mean(values, drop), spread, len(values) - 2 * drop)


def prune(points: Sequence[Point]) -> list[Point]:
    """The points without those that a neighbouring batch size makes implausible.

    Larger batches do not converge in fewer samples: what is smaller than the fastest batch size goes. Then
    what is slower than the line between its neighbours goes, in one sweep from small to large. The sweep
    does not go back, so what is left need not be convex; rcp_checker does the same.
    """
    if not points:
        return []
    fastest = min(points, key=lambda point: point.mean)
    rest = [point for point in points if point.batch_size >= fastest.batch_size]
    i = 1
    while i < len(rest) - 1:
        if rest[i].mean > interpolate(rest[i - 1], rest[i + 1], rest[i].batch_size, rest[i].num_points).mean:
            del rest[i]
        else:
            i += 1
    return rest


def interpolate(low: Point, high: Point, batch_size: int, num_points: int) -> Point:
    """The point at `batch_size` on the line between two; mean and spread linear in the batch size."""
    share = (batch_size - low.batch_size) / (high.batch_size - low.batch_size)
    mean = low.mean + (high.mean - low.mean) * share
    return Point(batch_size, mean, low.spread + (high.spread - low.spread) * share, num_points)


def neighbours(points: Sequence[Point], batch_size: int) -> tuple[Point | None, Point | None]:
    """The last point at or below `batch_size` and the first at or above it; both are the point of that size itself."""
    low = next((point for point in reversed(points) if point.batch_size <= batch_size), None)
    return low, next((point for point in points if point.batch_size >= batch_size), None)


def acceptable_mean(point: Point, num_submitted: int) -> float:
    """The smallest mean of `num_submitted` kept runs that is not significantly below the reference's, in samples.

    Solved for the mean, Student's two-sample t-test with equal variances gives
    mean - t(0.95, n_ref + n_sub - 2) * s * sqrt(1 / n_ref + 1 / n_sub); rcp_checker finds it by bisection.
    """
    quantile = student_quantile(point.num_points + num_submitted - 2, CONFIDENCE)
    return max(0.0, point.mean - quantile * point.spread * math.sqrt(1 / point.num_points + 1 / num_submitted))


def is_acceptable(mean: float, limit: float) -> bool:
    """Whether a mean is not below the acceptable one."""
    return mean >= limit * (1 - ROUNDING)


def normalisation(point: Point, mean: float) -> float:
    """The factor, at least 1, that takes convergence faster than the reference's mean back."""
    return max(1.0, point.mean / mean) if mean > 0 else 1.0


Basis = Literal["exact", "interpolated", "larger", "none"]
# Of Llama 3.1 405B; the program asks for 5.0.0 or later.
_ALLOWANCE = {"llama31_405b": ("5.0.0", 46_080.0)}


@dataclass(frozen=True, slots=True)
class RoundVerdict:
    """What the reference says of a result.

    status: "pass"; "fail" (faster than acceptable); "missing" (no reference run at this batch size, or between two);
        "unknown" (the logs do not say what would have to be compared).
    basis: the reference at this batch size, between two, at the next larger, or none.
    reference_mean, acceptable_mean, mean: in epochs or samples, as the reference counts; None where there is none.
    factor: reference_mean / mean where that is above 1 and the result passes, else 1: the score is multiplied by it.
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
        """How many times as fast as the reference a result may be; None where even none at all would pass."""
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
    """Compares the epochs or samples to target of a result's runs (None: it missed) with the reference's.

    Extremes are cut from as many runs as there are. Below the reference's smallest batch size that one is taken: who
    is not too fast for it is not too fast; who is, misses a reference. Beyond the largest it is missing.
    """
    if isinstance(batch_size, float) and batch_size.is_integer():
        batch_size = int(batch_size)  # 256.0: to MLCommons' program it is 256
    if not is_whole(batch_size):
        why = f"global_batch_size is {shown(batch_size)}; it must be a whole number"
        if batch_size is None:
            why = "the logs have no global_batch_size, or not all the same"
        return RoundVerdict("unknown", "none", why)
    missed = sum(amount is None for amount in amounts)
    if missed > benchmark.drop:
        return RoundVerdict("unknown", "none", f"{missed} of {len(amounts)} runs did not converge")
    if len(amounts) <= 2 * benchmark.drop:
        return RoundVerdict("unknown", "none", f"{len(amounts)} runs are too few to leave out the extremes")
    mean = trimmed_mean([math.inf if amount is None else amount for amount in amounts], benchmark.drop)
    known = round_points(benchmark.convergence, benchmark.drop, definition)
    if not known:
        return RoundVerdict("missing", "none", f"round {version} has no reference of {benchmark.name}", mean=mean)
    low, high = neighbours(known, batch_size)
    if low is not None and low is high:
        return _compare(low, mean, benchmark, version, definition, "exact")
    if low is not None and high is not None:
        between = interpolate(low, high, batch_size, 2 * benchmark.num_runs)
        return _compare(between, mean, benchmark, version, definition, "interpolated")
    words = f"above the largest, {known[-1].batch_size}"
    if high is not None:
        words = f"below the smallest, {high.batch_size}"
        verdict = _compare(high, mean, benchmark, version, definition, "larger")
        if verdict.status == "pass":
            return verdict
    why = f"no reference runs at batch size {batch_size}, {words} of the reference's"
    return RoundVerdict("missing", "none", why, mean=mean)


def round_points(references: Iterable[RoundReference], drop: int, definition: Definition) -> list[Point]:
    """The reference of a round by batch size, pruned."""
    return prune(reference_points({item.global_batch_size: item.points for item in references}, drop, definition))


def _compare(
    point: Point, mean: float, benchmark: RoundBenchmark, version: str, definition: Definition, basis: Basis
) -> RoundVerdict:
    cut = 2 if definition == "code" else 2 * benchmark.drop
    limit = acceptable_mean(point, benchmark.num_runs - cut)
    if definition == "code" and benchmark.name in _ALLOWANCE:
        since, allowance = _ALLOWANCE[benchmark.name]
        if _numbers(version) >= _numbers(since):
            limit = max(0.0, limit - allowance)
    is_slow_enough = is_acceptable(mean, limit)
    words = {"exact": "at", "interpolated": "between its batch sizes at", "larger": "at the larger"}[basis]
    return RoundVerdict(
        status="pass" if is_slow_enough else "fail",
        basis=basis,
        why=f"the reference {words} batch size {point.batch_size}",
        reference_mean=point.mean,
        acceptable_mean=limit,
        mean=mean,
        factor=normalisation(point, mean) if is_slow_enough else 1.0,
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.rpartition("/")[2].split(".") if part.isdigit())
