"""Reference convergence points: did a submission need significantly fewer samples than the reference? Pure.

Reference runs at some batch sizes give the samples to target that are honest there. A submission whose mean
lies below the acceptable one converged faster than the task allows; one between the acceptable and the
reference's mean had luck, which `factor` takes back.

Source: MLPerf training rules, "Reference Convergence Points" and its appendix; MLCommons' rcp_checker.
The two disagree on the spread. Rules ("text"): the standard deviation of the points that are averaged.
Program ("code"): that of all points, the cut ones too, which is larger and forgives more: in the rules' own
example a speed-up of 6.56 % instead of 3.53 %. Both take the population's (divided by n, not n - 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.base.stats import kept, student_quantile, trimmed_mean
from harness.ruleset.model import ReferenceConvergence

Spread = Literal["code", "text"]
CONFIDENCE = 0.95  # one-sided; the rules' p-value of 0.05
ROUNDING = 1e-9  # relative: an interpolated mean is not exact, and equal to the limit passes


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the reference says of a submission's convergence.

    status: "pass", "fail" (faster than acceptable), or "missing" (nothing to compare with; `how` says why).
    reference_mean, acceptable_mean, submission_mean: trimmed means in samples to target; None where there is none.
    max_speedup: reference_mean / acceptable_mean, at least 1; None where not even zero samples would be too few.
    factor: at least 1; the score is multiplied by it. 1 where the submission needed no fewer samples than the
        reference, or nothing could be compared. how: which reference was used, in words.
    """

    status: Literal["pass", "fail", "missing"]
    reference_mean: float | None
    acceptable_mean: float | None
    submission_mean: float | None
    max_speedup: float | None
    factor: float
    how: str


@dataclass(frozen=True, slots=True)
class Point:
    """The reference at one batch size: trimmed mean and standard deviation of samples to target.

    num_points: how many values the mean counts as in the t-test.
    """

    batch_size: int
    mean: float
    spread: float
    num_points: int


def reference_points(reference: Iterable[ReferenceConvergence], drop: int = 1, spread: Spread = "code") -> list[Point]:
    """One point a batch size, ascending; a batch size of which fewer than two runs are kept is left out."""
    by_batch_size: dict[int, list[int]] = {}
    for item in reference:
        by_batch_size.setdefault(item.global_batch_size, []).extend(item.samples_to_target)
    return [
        _point(batch_size, values, drop, spread)
        for batch_size, values in sorted(by_batch_size.items())
        if len(values) - 2 * drop >= 2
    ]


def _point(batch_size: int, values: list[int], drop: int, spread: Spread) -> Point:
    spread_over = values if spread == "code" else kept(values, drop)
    centre = math.fsum(spread_over) / len(spread_over)
    deviation = math.sqrt(math.fsum((value - centre) ** 2 for value in spread_over) / len(spread_over))
    return Point(batch_size, trimmed_mean(values, drop), deviation, len(values) - 2 * drop)


def prune(points: Sequence[Point]) -> list[Point]:
    """The points without those that a neighbouring batch size makes implausible.

    Larger batches do not converge in fewer samples: what is smaller than the fastest batch size goes. Then
    what is slower than the line between its neighbours goes, in one sweep from small to large. The sweep
    does not go back, so what is left need not be convex; rcp_checker does the same.
    """
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


def acceptable_mean(point: Point, num_submitted: int) -> float:
    """The smallest mean of `num_submitted` kept runs that is not significantly below the reference's, in samples.

    Solved for the mean, Student's two-sample t-test with equal variances gives
    mean - t(0.95, n_ref + n_sub - 2) * s * sqrt(1 / n_ref + 1 / n_sub); rcp_checker finds it by bisection.
    """
    quantile = student_quantile(point.num_points + num_submitted - 2, CONFIDENCE)
    return max(0.0, point.mean - quantile * point.spread * math.sqrt(1 / point.num_points + 1 / num_submitted))


def judge_convergence(
    samples: Sequence[int | None],
    batch_size: int,
    reference: Sequence[ReferenceConvergence],
    drop: int = 1,
    spread: Spread = "code",
) -> Verdict:
    """Compares the samples to target of a result's runs (None: missed) with the reference at `batch_size`.

    The reference is the point of that batch size; else the line between the next smaller and the next larger,
    which counts as twice as many values as runs were submitted. Beyond the largest it is missing. Below
    the smallest that one is taken: who is not too fast for it is not too fast; who is, misses a reference.
    """
    missed = sum(value is None for value in samples)
    num_submitted = len(samples) - 2 * drop
    if num_submitted < 1:
        return _missing(f"{len(samples)} runs are too few to leave out {drop} at either end", None)
    if missed > drop:
        return _missing(f"{missed} of {len(samples)} runs missed the target", None)
    mean = trimmed_mean([math.inf if value is None else value for value in samples], drop)
    points = reference_points(reference, drop, spread)
    if not points:
        return _missing("there are no reference convergence points", mean)
    points = prune(points)
    lower = [point for point in points if point.batch_size < batch_size]
    higher = points[len(lower) :]  # the first of them may be the batch size itself
    if higher and higher[0].batch_size == batch_size:
        return _compare(higher[0], mean, num_submitted, f"reference at batch size {batch_size}")
    if lower and higher:
        point = interpolate(lower[-1], higher[0], batch_size, 2 * len(samples))
        how = f"reference between the batch sizes {lower[-1].batch_size} and {higher[0].batch_size}"
        return _compare(point, mean, num_submitted, how)
    if lower:
        return _missing(
            f"batch size {batch_size} is larger than the reference's largest, {lower[-1].batch_size}: "
            "reference runs at this batch size are needed",
            mean,
        )
    verdict = _compare(higher[0], mean, num_submitted, f"reference at the larger batch size {higher[0].batch_size}")
    if verdict.status == "pass":
        return verdict
    return _missing(
        f"batch size {batch_size} is smaller than the reference's smallest, {higher[0].batch_size}, and the result is "
        "too fast for that one: reference runs at this batch size are needed",
        mean,
    )


def _compare(point: Point, mean: float, num_submitted: int, how: str) -> Verdict:
    limit = acceptable_mean(point, num_submitted)
    return Verdict(
        status="pass" if mean >= limit * (1 - ROUNDING) else "fail",
        reference_mean=point.mean,
        acceptable_mean=limit,
        submission_mean=mean,
        max_speedup=point.mean / limit if limit > 0 else None,
        factor=max(1.0, point.mean / mean) if mean > 0 else 1.0,
        how=how,
    )


def _missing(how: str, mean: float | None) -> Verdict:
    return Verdict("missing", None, None, mean, None, 1.0, how)
