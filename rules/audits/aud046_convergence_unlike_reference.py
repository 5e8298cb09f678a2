"""The result converges faster, or with less spread, than the reference suggests.

## What it does
Compares samples (or epochs) to target with the reference's at the same batch size: the mean by a one-sided t-test, the
variance by the ratio of the two, allowing for what evaluating at intervals adds. Where the reference is interpolated
between evaluations, as in the rules of `tta`, so are the runs.

## Why it matters
The rules test the mean. Runs chosen from many are both faster and closer together than runs that were drawn.

## Example
The reference needs 61,000 to 82,000 samples; all five runs need 56,320.

## Instead
Submit consecutive runs with drawn seeds.

## Source
MLPerf training rules, "RCP". The test of the variance, and testing both, are additions of `tta`.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts, Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.scoring.timeline import crossing
from harness.workload import Metric

SCOPE = "result"
ONLINE_ONLY = True
LIMITS = ("min_runs", "max_t", "max_variance_ratio")


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    points = subject.standard.reference
    unit = subject.standard.reference_unit
    reached = [position for run in subject.runs if (position := _reached(run, unit)) is not None]
    if len(reached) < rule["min_runs"] or len(points) < 3:
        return
    mean, reference = statistics.fmean(reached), statistics.fmean(points)
    spread, reference_spread = statistics.variance(reached), statistics.variance(points)
    pooled = ((len(reached) - 1) * spread + (len(points) - 1) * reference_spread) / (len(reached) + len(points) - 2)
    t = (reference - mean) / math.sqrt(pooled * (1 / len(reached) + 1 / len(points))) if pooled > 0 else 0.0
    if t > rule["max_t"]:
        message = f"{mean:g} {unit} to target on average; the reference needs {reference:g} (t = {t:.1f})"
        yield evidence(subject.path, None, message, 1 - rule["max_t"] / t, mean=mean, reference=reference, t=t)
    # Runs evaluated every four epochs all end at one of a few positions, which does not make them similar.
    grain = statistics.median(_distances(subject)) ** 2 / 12
    if reference_spread > 0 and (spread + grain) * rule["max_variance_ratio"] < reference_spread:
        message = (
            f"{len(reached)} runs differ by {math.sqrt(spread):.4g} {unit}; the reference's differ by "
            f"{math.sqrt(reference_spread):.4g}"
        )
        yield evidence(
            subject.path, None, message, 0.3, spread=math.sqrt(spread), reference=math.sqrt(reference_spread)
        )


def _reached(run: RunFacts, unit: str) -> float | None:
    """Where a run reached the target, in the reference's unit: at its last evaluation, or interpolated."""
    target, final = run.standard.target, run.final
    if target is None or final is None or final.unit != unit:
        return None
    metric = Metric("", "", run.standard.direction)
    if run.standard.is_interpolated:
        curve = [(point.position, point.value) for point in run.curve if point.position is not None]
        return crossing(curve, metric, target, run.standard.confirm_evaluations)
    return final.position if metric.is_reached(final.value, target) else None


def _distances(subject: Subject) -> list[float]:
    """The distances from one evaluation to the next, over all runs; a single zero if there are none."""
    found = [
        after.position - before.position
        for run in subject.runs
        for before, after in itertools.pairwise(run.curve)
        if before.position is not None and after.position is not None
    ]
    return found or [0.0]
