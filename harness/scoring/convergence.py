"""Did a result need significantly fewer samples than the reference runs? Pure.

The reference runs at some batch sizes show how many samples the target honestly takes there. A result whose mean is
below the acceptable one converged faster than the task allows; one between the acceptable mean and the reference's
was lucky, and `factor` takes the luck back. The statistics are those of `harness.mlperf.rcp`, which also says where
the two definitions of the spread, "code" and "rules", differ.

Source: MLPerf training rules, "Reference Convergence Points" and its appendix; MLCommons' rcp_checker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.base.stats import trimmed_mean
from harness.mlperf import rcp
from harness.mlperf.rcp import Definition, Point
from harness.ruleset.model import ReferenceConvergence


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the convergence of a result compares with the reference.

    status: "pass", "fail" (faster than acceptable), or "missing" (nothing to compare with; `how` says why).
    reference_mean, acceptable_mean, submission_mean: trimmed means in samples to target; None where there is none.
    max_speedup: reference_mean / acceptable_mean, at least 1; None if no number of samples would be too small.
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


def reference_points(
    reference: Iterable[ReferenceConvergence], drop: int = 1, definition: Definition = "code"
) -> list[Point]:
    """Return one point a batch size, ascending; a batch size with fewer than two kept runs is left out."""
    by_batch_size: dict[int, list[int]] = {}
    for item in reference:
        by_batch_size.setdefault(item.global_batch_size, []).extend(item.samples_to_target)
    points = [rcp.reference_point(size, values, drop, definition) for size, values in sorted(by_batch_size.items())]
    return [point for point in points if point is not None]


def judge_convergence(
    samples: Sequence[int | None],
    batch_size: int,
    reference: Sequence[ReferenceConvergence],
    drop: int = 1,
    definition: Definition = "code",
) -> Verdict:
    """Compare the samples to target of a result's runs (None: missed) with the reference at `batch_size`.

    Below the smallest reference batch size, a result that is not too fast for that one passes; one that is too fast
    for it has no reference, and neither has a result above the largest.
    """
    missed = sum(value is None for value in samples)
    num_submitted = len(samples) - 2 * drop
    if num_submitted < 1:
        return _missing(f"{len(samples)} runs are too few to leave out {drop} at either end", None)
    if missed > drop:
        return _missing(f"{missed} of {len(samples)} runs missed the target", None)
    mean = trimmed_mean([math.inf if value is None else value for value in samples], drop)
    points = rcp.prune(reference_points(reference, drop, definition))
    if not points:
        return _missing("there are no reference convergence points", mean)
    point, basis = rcp.reference_at(points, batch_size, len(samples))
    if point is None:
        return _missing(
            f"batch size {batch_size} is larger than the reference's largest, {points[-1].batch_size}: "
            "reference runs at this batch size are needed",
            mean,
        )
    lower, upper = rcp.neighbours(points, batch_size)
    how = f"reference at batch size {batch_size}"
    if lower is not None and upper is not None and basis == "interpolated":
        how = f"reference between the batch sizes {lower.batch_size} and {upper.batch_size}"
    if basis == "larger":
        how = f"reference at the larger batch size {point.batch_size}"
    verdict = _compare(point, mean, num_submitted, how)
    if basis != "larger" or verdict.status == "pass":
        return verdict
    return _missing(
        f"batch size {batch_size} is smaller than the reference's smallest, {point.batch_size}, and the result is "
        "too fast for that one: reference runs at this batch size are needed",
        mean,
    )


def _compare(point: Point, mean: float, num_submitted: int, how: str) -> Verdict:
    limit = rcp.acceptable_mean(point, num_submitted)
    return Verdict(
        status="pass" if rcp.is_acceptable(mean, limit) else "fail",
        reference_mean=point.mean,
        acceptable_mean=limit,
        submission_mean=mean,
        max_speedup=point.mean / limit if limit > 0 else None,
        factor=rcp.normalisation_factor(point, mean),
        how=how,
    )


def _missing(how: str, mean: float | None) -> Verdict:
    return Verdict("missing", None, None, mean, None, 1.0, how)
