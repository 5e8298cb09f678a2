"""Proposes a target from full-length runs of the reference. Pure.

A target that some seed never reaches makes honest results invalid; one near the plateau makes the time to reach it a
lottery (the cliff: a little more quality costs very many samples); one that the first evaluations reach measures
start-up. Between these, the hardest level is chosen, because it demands most of a system.

The limits below are `tta`'s; MLPerf chooses by eye from the same curves of cost and variation over the target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from harness.base.stats import variance
from harness.scoring.timeline import first_reached
from harness.workload import Metric

Curve = Sequence[tuple[int, float]]
"""Samples and quality at every evaluation of one run, in order, the run not stopping at a target."""

NUM_CANDIDATES = 25  # approximate: the step is a round number
MAX_GROWTH = 0.1  # extra samples for the next 1 % of the way, relative to the target's own: ten times the average
MAX_VARIATION = 0.15  # of samples to target between seeds: above it a mean over five runs says little
MAX_CURVE_SHARE = 0.8  # of its curve that the slowest seed may need: the rest is a margin for slower seeds
MIN_EVALUATIONS = 3  # an earlier hit measures the evaluation cadence, not the training
MIN_SEEDS = 3
MAX_FALLEN = 0.1  # of the runs that may fall below the target at the next evaluation, before it needs confirming


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible target and what it demands.

    num_reached: seeds that reach it, out of num_seeds. mean_samples: to target, over those; None if there are none.
    variation: standard deviation / mean of these; None for fewer than two. max_share: fraction of its curve that the
    slowest of them needs. min_evaluations: number of evaluations that the fastest of them needs.
    slope: additional samples for 0.001 more target, by interpolation between the evaluations of a run.
    growth: the same for 1 % of the way from the first evaluations to the best quality of any run, relative to the
    samples to target. Both are None where not every seed gets beyond the target: the cliff.
    """

    target: float
    num_seeds: int
    num_reached: int
    mean_samples: float | None
    variation: float | None
    max_share: float | None
    min_evaluations: int | None
    slope: float | None
    growth: float | None

    def objections(self) -> list[str]:
        """The reasons against this target, a clause each; empty if it is acceptable."""
        found = []
        if self.num_reached < self.num_seeds:
            found.append(f"only {self.num_reached} of {self.num_seeds} seeds reach it")
        if self.max_share is not None and self.max_share > MAX_CURVE_SHARE:
            found.append(f"the slowest seed needs {self.max_share:.0%} of its curve, above {MAX_CURVE_SHARE:.0%}")
        if self.min_evaluations is not None and self.min_evaluations < MIN_EVALUATIONS:
            found.append(f"a seed reaches it at evaluation {self.min_evaluations}, below {MIN_EVALUATIONS}")
        if self.growth is None and self.num_reached == self.num_seeds:
            found.append("not every seed gets beyond it")
        if self.variation is not None and self.variation > MAX_VARIATION:
            found.append(f"samples to it vary by {self.variation:.0%} between seeds, above {MAX_VARIATION:.0%}")
        if self.growth is not None and self.growth > MAX_GROWTH:
            found.append(f"the next 1 % of the way costs {self.growth:.1%} more samples, above {MAX_GROWTH:.0%}")
        return found


@dataclass(frozen=True, slots=True)
class Proposal:
    """Candidates from easy to hard, the recommended one (None if none is acceptable), and the reasons."""

    candidates: tuple[Candidate, ...]
    recommended: float | None
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stability:
    """How surely a target is reached, and how firmly.

    num_reached: of `num_seeds`. miss_bound: upper 95 % bound of the share of seeds that miss it (Clopper and Pearson).
    num_fallen: of the `num_followed` runs that were evaluated again after the deciding evaluation, those that were
    below the target there.
    """

    num_seeds: int
    num_reached: int
    miss_bound: float
    num_followed: int
    num_fallen: int

    @property
    def needs_confirmation(self) -> bool:
        """Whether more than 10 % of the runs fall below the target at the next evaluation."""
        return self.num_fallen > MAX_FALLEN * self.num_followed


def stability(curves: Sequence[Curve], metric: Metric, target: float, confirm: int = 0) -> Stability:
    """Assess one target on full-length runs; there must be at least one.

    Source: C. J. Clopper and E. S. Pearson, Biometrika 26 (1934).
    """
    from scipy.special import betaincinv

    deciding = [first_reached([quality for _, quality in curve], metric, target, confirm) for curve in curves]
    after = [
        curve[index + 1][1]
        for curve, index in zip(curves, deciding, strict=True)
        if index is not None and index + 1 < len(curve)
    ]
    num_missed = deciding.count(None)
    num_reached = len(curves) - num_missed
    return Stability(
        num_seeds=len(curves),
        num_reached=num_reached,
        miss_bound=float(betaincinv(num_missed + 1, num_reached, 0.95)) if num_reached else 1.0,
        num_followed=len(after),
        num_fallen=sum(not metric.is_reached(quality, target) for quality in after),
    )


def propose_target(curves: Sequence[Curve], metric: Metric, confirm: int = 0) -> Proposal:
    """Assesses about 25 round targets between the first evaluations and the best quality of any run.

    Raises:
        ValueError: there is no curve, one has no evaluation, or a quality is not finite.
    """
    if not curves or not all(curves):
        raise ValueError("a target needs at least one run, and an evaluation in every run")
    if not all(math.isfinite(quality) for curve in curves for _, quality in curve):
        raise ValueError("a quality is not finite")
    sign = 1.0 if metric.direction == "max" else -1.0
    paths = [_path(curve, sign, confirm) for curve in curves]
    first = median(sign * curve[0][1] for curve in curves)
    best = max((path[-1][1] for path in paths if path), default=first)
    if best <= first:
        return Proposal((), None, ("no run improves on the first evaluations",))
    step = _round_step((best - first) / NUM_CANDIDATES)
    digits = -math.floor(math.log10(step))
    levels = [round(i * step, digits) for i in range(math.ceil(first / step), math.floor(best / step) + 1)]
    candidates = tuple(
        _candidate(curves, paths, metric, confirm, sign * level + 0.0, step / 2, best - first) for level in levels
    )
    return _choose(candidates)


def _choose(candidates: tuple[Candidate, ...]) -> Proposal:
    good = [candidate for candidate in candidates if not candidate.objections()]
    if not good:
        return Proposal(candidates, None, tuple(_ruled_out(candidate) for candidate in candidates))
    chosen = good[-1]
    assert chosen.mean_samples is not None
    assert chosen.max_share is not None
    assert chosen.growth is not None
    reasons = [
        f"{chosen.num_seeds} of {chosen.num_seeds} seeds reach {chosen.target:g}, "
        f"the slowest after {chosen.max_share:.0%} of its curve",
        f"the next 1 % of the way costs {chosen.growth:.1%} more samples; the limit is {MAX_GROWTH:.0%}",
    ]
    harder = candidates[candidates.index(chosen) + 1 :]
    reasons += [_ruled_out(candidate) for candidate in harder[:1]]
    if chosen.num_seeds < MIN_SEEDS:
        reasons.append(f"too few seeds ({chosen.num_seeds}) to rely on; run at least {MIN_SEEDS}")
    if chosen.variation is not None:
        reasons.insert(
            1, f"samples to it vary by {chosen.variation:.1%} between seeds; the limit is {MAX_VARIATION:.0%}"
        )
    return Proposal(candidates, chosen.target, tuple(reasons))


def _ruled_out(candidate: Candidate) -> str:
    return f"{candidate.target:g} is ruled out: {'; '.join(candidate.objections())}"


def _candidate(
    curves: Sequence[Curve],
    paths: Sequence[Curve],
    metric: Metric,
    confirm: int,
    target: float,
    half_step: float,
    way: float,
) -> Candidate:
    sign = 1.0 if metric.direction == "max" else -1.0
    hits = [
        (curve, index)
        for curve in curves
        if (index := first_reached([quality for _, quality in curve], metric, target, confirm)) is not None
    ]
    samples = [curve[index][0] for curve, index in hits]
    mean = math.fsum(samples) / len(samples) if samples else None
    before, at, after = (
        [_samples_at(path, sign * target + shift) for path in paths] for shift in (-half_step, 0.0, half_step)
    )
    # Over the same seeds at each level: a seed that drops out at the harder level would hide the cliff.
    slope = growth = None
    if None not in after:
        more = math.fsum(high - low for high, low in zip(_known(after), _known(before), strict=True))
        per_unit = more / len(paths) / (2 * half_step)
        mean_at = math.fsum(_known(at)) / len(paths)
        slope = per_unit * 0.001
        growth = per_unit * way / 100 / mean_at if mean_at else None
    return Candidate(
        target=target,
        num_seeds=len(curves),
        num_reached=len(hits),
        mean_samples=mean,
        variation=math.sqrt(variance(samples)) / mean if mean and len(samples) > 1 else None,
        max_share=max((curve[index][0] / curve[-1][0] for curve, index in hits if curve[-1][0] > 0), default=None),
        min_evaluations=min((index + 1 for _, index in hits), default=None),
        slope=slope,
        growth=growth,
    )


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _path(curve: Curve, sign: float, confirm: int) -> list[tuple[int, float]]:
    """The best confirmed quality so far at every evaluation, signed so that larger is better.

    The quality that an evaluation confirms is the worst of its own and those of the `confirm` evaluations before it.
    """
    path: list[tuple[int, float]] = []
    for end in range(confirm, len(curve)):
        level = min(sign * quality for _, quality in curve[end - confirm : end + 1])
        path.append((curve[end][0], max(level, path[-1][1]) if path else level))
    return path


def _samples_at(path: Sequence[tuple[int, float]], level: float) -> float | None:
    """Samples at which the path passes `level`, interpolated between evaluations; None if it never does."""
    previous: tuple[int, float] | None = None
    for samples, quality in path:
        if quality >= level:
            if previous is None:
                return float(samples)
            share = (level - previous[1]) / (quality - previous[1])
            return previous[0] + share * (samples - previous[0])
        previous = (samples, quality)
    return None


def _round_step(step: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not above `step`."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (5.0, 2.0, 1.0) if factor * power <= step * (1 + 1e-9))
