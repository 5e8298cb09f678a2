"""Reference convergence points: did a submission need significantly fewer samples than the reference? Pure.

Reference runs at some batch sizes give the samples to target that are honest at those sizes. A submission whose mean
is below the acceptable one converged faster than the task allows; one between the acceptable mean and the reference's
was lucky, which `factor` takes back. The arithmetic, and the two definitions of the spread, are those of
`harness.mlperf.rcp`; the default is the program's.

Source: MLPerf training rules, "Reference Convergence Points" and its appendix; MLCommons' rcp_checker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.base.stats import trimmed_mean
from harness.mlperf.rcp import (
    Definition,
    Point,
    acceptable_mean,
    is_acceptable,
    neighbours,
    normalisation,
    reference_at,
    reference_points,
)
from harness.ruleset.model import ReferenceConvergence


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the reference says of a submission's convergence.

    status: "pass", "fail" (faster than acceptable), or "missing" (nothing to compare with; `how` says why).
    reference_mean, acceptable_mean, submission_mean: trimmed means of the samples to target; None where unknown.
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


def points_by_batch_size(
    reference: Iterable[ReferenceConvergence], drop: int = 1, definition: Definition = "code"
) -> list[Point]:
    """The reference's points, ascending and pruned; runs that are listed under one batch size twice are one point."""
    samples: dict[int, list[int]] = {}
    for item in reference:
        samples.setdefault(item.global_batch_size, []).extend(item.samples_to_target)
    return reference_points(samples.items(), drop, definition)


def judge_convergence(
    samples: Sequence[int | None],
    batch_size: int,
    reference: Sequence[ReferenceConvergence],
    drop: int = 1,
    definition: Definition = "code",
) -> Verdict:
    """Compares the samples to target of a result's runs (None: missed) with the reference at `batch_size`.

    Above the largest batch size of the reference there is nothing to compare with. Below the smallest, a result that
    is not too fast for that one passes, and one that is has no reference.
    """
    missed = sum(value is None for value in samples)
    num_submitted = len(samples) - 2 * drop
    if num_submitted < 1:
        return _missing(f"{len(samples)} runs are too few to leave out {drop} at either end", None)
    if missed > drop:
        return _missing(f"{missed} of {len(samples)} runs missed the target", None)
    mean = trimmed_mean([math.inf if value is None else value for value in samples], drop)
    points = points_by_batch_size(reference, drop, definition)
    if not points:
        return _missing("there are no reference convergence points", mean)
    point, basis = reference_at(points, batch_size, len(samples))
    if point is None:
        return _missing(
            f"batch size {batch_size} is larger than the reference's largest, {points[-1].batch_size}: "
            "reference runs at this batch size are needed",
            mean,
        )
    how = f"reference at batch size {batch_size}"
    if basis == "interpolated":
        sizes = [neighbour.batch_size for neighbour in neighbours(points, batch_size) if neighbour is not None]
        how = f"reference between the batch sizes {sizes[0]} and {sizes[1]}"
    elif basis == "larger":
        how = f"reference at the larger batch size {point.batch_size}"
    verdict = _compare(point, mean, num_submitted, how)
    if basis != "larger" or verdict.status == "pass":
        return verdict
    return _missing(
        f"batch size {batch_size} is smaller than the reference's smallest, {point.batch_size}, and the result is too "
        "fast for that one: reference runs at this batch size are needed",
        mean,
    )


def _compare(point: Point, mean: float, num_submitted: int, how: str) -> Verdict:
    limit = acceptable_mean(point, num_submitted)
    return Verdict(
        status="pass" if is_acceptable(mean, limit) else "fail",
        reference_mean=point.mean,
        acceptable_mean=limit,
        submission_mean=mean,
        max_speedup=point.mean / limit if limit > 0 else None,
        factor=normalisation(point, mean),
        how=how,
    )


def _missing(how: str, mean: float | None) -> Verdict:
    return Verdict("missing", None, None, mean, None, 1.0, how)
