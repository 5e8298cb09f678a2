"""Reference convergence: how many samples the reference needs at a batch size, and whether a result differs.

The closed division fixes the recipe, so that the samples to target are the reference's but for luck and tuning. A
result that needs fewer gains nothing by it (`harness.scoring.score`); one that needs significantly more is scored with
its own. All comparisons are of logarithms: the samples of different seeds scatter in proportion. Pure.

What an MLPerf round does instead is in `harness.mlperf.rcp`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from harness.base.stats import student_quantile, trimmed_mean, trimming_cost, upper_tail, variance

SLOWER = 0.05  # one-sided p-value below which a result is scored with its own samples
TOO_FAST = 1e-4  # one-sided p-value of the error, beyond what tuning gains
TUNING = 0.25  # samples that tuning within the permitted ranges may save; 22 % was seen (image classification)
ROUNDING = 1e-12  # least error of a mean of logarithms: equal samples are not told apart by the last digits


class ReferenceRuns(Protocol):
    """Samples to target of the reference at one batch size, as `ReferenceConvergence` has them."""

    @property
    def global_batch_size(self) -> int: ...

    @property
    def samples_to_target(self) -> Sequence[float]: ...

    @property
    def source(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference at one batch size.

    samples: geometric mean of the samples to target. variance: of their logarithms between seeds; num_runs: behind it.
    leverage: variance of the logarithm of `samples` relative to `variance`; 1 / num_runs at a batch size that was run.
    how: in words, with the source of points that others published.
    """

    samples: float
    variance: float
    num_runs: int
    leverage: float
    how: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the reference says of a result's convergence.

    status: "missing" (nothing to compare with; `how` says why), "too fast" (neither luck nor tuning explains it),
        "faster" and "slower" (one-sided p < 0.05), else "as expected".
    reference_samples: geometric mean of the reference's samples to target; own_samples: that of the result, without
        its fastest and slowest runs; limit_samples: the own samples below which the status is "too fast". None where
        unknown.
    p_faster: one-sided p-value of needing fewer samples than the reference.
    variance, dof: of the logarithms of the samples between seeds, reference and result pooled; None where unknown.
    how: which reference was used, in words.
    """

    status: Literal["missing", "too fast", "faster", "slower", "as expected"]
    reference_samples: float | None
    own_samples: float | None
    limit_samples: float | None
    p_faster: float | None
    variance: float | None
    dof: int | None
    how: str


def reference_at(reference: Iterable[ReferenceRuns], batch_size: int) -> Reference | str:
    """Return the reference at `batch_size`, or why there is none.

    Between two batch sizes the logarithm of the samples is linear in that of the batch size. There is no reference
    beyond the smallest and the largest.
    """
    logs: dict[int, list[float]] = {}
    sources: dict[int, list[str]] = {}
    for item in reference:
        logs.setdefault(item.global_batch_size, []).extend(map(math.log, item.samples_to_target))
        sources.setdefault(item.global_batch_size, []).extend(filter(None, [item.source]))
    sizes = sorted(size for size, values in logs.items() if len(values) > 1)
    if not sizes:
        return "there are no reference convergence points"
    if not sizes[0] <= batch_size <= sizes[-1]:
        return f"batch size {batch_size} is outside the reference's, {sizes[0]} to {sizes[-1]}"
    low = max(size for size in sizes if size <= batch_size)
    high = min(size for size in sizes if size >= batch_size)
    means = [math.fsum(logs[size]) / len(logs[size]) for size in (low, high)]
    published = "; ".join(dict.fromkeys(sources[low] + sources[high]))
    origin = f", published: {published}" if published else ""
    if low == high:
        count = len(logs[low])
        how = f"reference at batch size {batch_size}{origin}"
        return Reference(math.exp(means[0]), variance(logs[low]), count, 1 / count, how)
    share = math.log(batch_size / low) / math.log(high / low)
    (count, other), spreads = [len(logs[size]) for size in (low, high)], [variance(logs[low]), variance(logs[high])]
    return Reference(
        samples=math.exp(means[0] + share * (means[1] - means[0])),
        variance=spreads[0] + share * (spreads[1] - spreads[0]),
        num_runs=min(count, other),
        leverage=(1 - share) ** 2 / count + share**2 / other,
        how=f"reference between the batch sizes {low} and {high}{origin}",
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """How many times the samples of the reference some runs need.

    ratio: of the geometric means. interval: its 90 % confidence interval. num_reference: runs behind the reference.
    """

    ratio: float
    interval: tuple[float, float]
    num_reference: int


def standing_of(reference: Reference | str, samples: Sequence[float | None]) -> Standing | None:
    """Return how the samples to target of some runs (None: missed) compare with those of the reference.

    None where there is no reference, or no run reached the target. No verdict rests on it.
    """
    logs = [math.log(number) for number in samples if number is not None]
    if isinstance(reference, str) or not logs:
        return None
    theta = math.fsum(logs) / len(logs) - math.log(reference.samples)
    error = math.sqrt(reference.variance * (reference.leverage + 1 / len(logs)))
    half = student_quantile(reference.num_runs - 1, 0.95) * error
    return Standing(math.exp(theta), (math.exp(theta - half), math.exp(theta + half)), reference.num_runs)


def judge_convergence(
    samples: Sequence[float | None],
    batch_size: int,
    reference: Sequence[ReferenceRuns],
    drop: int = 1,
) -> Verdict:
    """Compare the samples to target of a result's runs (None: missed) with the reference at `batch_size`.

    Student's t-test with one variance, which is pooled from reference and result; a result with a missed run does not
    contribute to it, because one of its values is not known. As many extremes as the score drops are left out of the
    mean of the result, and its variance is that of such a mean.
    """
    missed = sum(value is None for value in samples)
    if len(samples) <= 2 * drop:
        return _missing(f"too few runs ({len(samples)}) to leave out {drop} at either end")
    if missed > drop:
        return _missing(f"{missed} of {len(samples)} runs missed the target")
    if any(value is not None and value <= 0 for value in samples):
        return _missing("a run reached the target without training")
    logs = [math.inf if value is None else math.log(value) for value in samples]
    own = trimmed_mean(logs, drop)
    found = reference_at(reference, batch_size)
    if isinstance(found, str):
        return _missing(found, math.exp(own))
    dof, spread = found.num_runs - 1, found.variance
    if not missed and len(logs) > 1:
        total = dof + len(logs) - 1
        dof, spread = total, (dof * spread + (len(logs) - 1) * variance(logs)) / total
    error = max(ROUNDING, math.sqrt(spread * (found.leverage + trimming_cost(len(logs), drop) / len(logs))))
    difference = own - math.log(found.samples)
    p_faster = upper_tail(dof, -difference / error)
    status: Literal["too fast", "faster", "slower", "as expected"] = "as expected"
    if upper_tail(dof, (math.log(1 - TUNING) - difference) / error) < TOO_FAST:
        status = "too fast"
    elif p_faster < SLOWER:
        status = "faster"
    elif 1 - p_faster < SLOWER:
        status = "slower"
    limit = found.samples * (1 - TUNING) * math.exp(-student_quantile(dof, 1 - TOO_FAST) * error)
    return Verdict(status, found.samples, math.exp(own), limit, p_faster, spread, dof, found.how)


def _missing(how: str, own_samples: float | None = None) -> Verdict:
    return Verdict("missing", None, own_samples, None, None, None, None, how)
