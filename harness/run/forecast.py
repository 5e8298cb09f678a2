"""When a run will end: at its own pace, after as many samples as the reference runs needed, or with its budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.base.stats import student_quantile, upper_tail
from harness.run.plan import Evaluated, Plan
from harness.scoring.convergence import Reference, reference_at

_QUANTILES = (0.1, 0.5, 0.9)
_PAST = 0.01  # the share of runs that need still more samples, below which the reference no longer says anything


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples at which a run is expected to end: the middle, and the limits of eight runs in ten."""

    low: int
    middle: int
    high: int


def reference_of(plan: Plan) -> Reference | str:
    """Return the reference runs at the plan's batch size, or why there are none to compare with."""
    if plan.division != "closed":
        return "the reference runs are of the closed division"
    size = plan.hyperparameters.get("global_batch_size")
    if not isinstance(size, int):
        return "the recipe has no global batch size"
    return reference_at(plan.rules.reference_convergence, size)


def end_of(plan: Plan, reference: Reference, evaluations: list[Evaluated]) -> Samples | None:
    """Return where the run will end; None if fewer than one run in a hundred needs as many samples as it has.

    The logarithms of the samples to target scatter normally between seeds; the run has not reached the target at its
    last evaluation, which leaves the rest of that distribution. It ends at an evaluation, and after those that confirm.
    """
    rules = plan.rules
    every, last = rules.eval_every_samples, evaluations[-1].samples if evaluations else 0
    hits = 0
    for evaluated in reversed(evaluations):
        if not rules.metric.is_reached(evaluated.quality, rules.target):
            break
        hits += 1
    if hits:
        end = min(rules.max_samples, last + max(0, rules.confirm_evaluations + 1 - hits) * every)
        return Samples(end, end, end)
    dof = reference.num_runs - 1
    error = math.sqrt(reference.variance * (1 + reference.leverage))
    middle = math.log(reference.samples)
    left = 1.0
    if last:
        gone = math.log(last) - middle
        left = upper_tail(dof, gone / error) if error else float(gone < 0)
    if left < _PAST:
        return None
    ends = []
    for share in _QUANTILES:
        crossing = math.exp(middle + error * _quantile(dof, 1 - left * (1 - share)))
        edges = max(math.ceil(crossing / every), last // every + 1)
        ends.append(min(rules.max_samples, (edges + rules.confirm_evaluations) * every))
    return Samples(*ends)


def _quantile(dof: int, share: float) -> float:
    return student_quantile(dof, share) if share >= 0.5 else -student_quantile(dof, 1 - share)


def duration(seconds: float) -> str:
    """Return `12 s`, `9 min 47 s` or `2 h 05 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
