"""At the same point of training, one run's quality is far better than that of the others.

## What it does
Compares each evaluation with those of the other runs of the result at the same position, relative to their spread. A
value that another run has by its next evaluation is a run that learns a little earlier, and not reported. Checkpoints
that are evaluated afterwards are not compared.

## Why it matters
Runs of one recipe differ only as much as seeds make them differ. A run far outside that used another recipe, or was
edited.

## Example
Nine runs have 0.62 to 0.63 at 100,000 samples, the tenth 0.75.

## Instead
Make all runs in the same way.

## Source
MLPerf training rules: the runs of a result differ only in their seeds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator

from harness.checker.audit.facts import Point, RunFacts, Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "result"
LIMITS = ("min_others", "max_spreads", "min_relative")


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    at: dict[float, list[float]] = {}
    if any(run.is_evaluated_afterwards for run in subject.runs):
        return
    for run in subject.runs:
        for point in run.curve:
            if point.position is not None:
                at.setdefault(point.position, []).append(point.value)
    ahead = _by_next_evaluation(subject)
    for run in subject.runs:
        worst: tuple[float, Evidence] | None = None
        for point in run.curve:
            others = list(at.get(point.position, [])) if point.position is not None else []
            if len(others) <= rule["min_others"]:
                continue
            others.remove(point.value)
            middle = statistics.median(others)
            spread = statistics.median(abs(value - middle) for value in others)
            away = abs(point.value - middle)
            sign = 1 if subject.standard.direction == "max" else -1
            if sign * point.value <= max(sign * middle, ahead(run, point, sign)):
                continue  # a run that falls behind is slow, and one that is ahead by one evaluation is fast
            limit = max(rule["max_spreads"] * spread, rule["min_relative"] * max(abs(value) for value in others))
            if away > limit and (worst is None or away / limit > worst[0]):
                message = (
                    f"the quality at {point.position:g} {point.unit} is {point.value:g}; the median of "
                    f"{len(others)} other runs there is {middle:g}, and they differ by about {spread:.2g}"
                )
                found = evidence(run.path, point.line, message, away / limit / 10, value=point.value, median=middle)
                worst = (away / limit, found)
        if worst is not None:
            yield worst[1]


def _by_next_evaluation(subject: Subject) -> Callable[[RunFacts, Point, int], float]:
    """A function that gives the best value, times `sign`, of the other runs by the evaluation after a point's."""
    curves = {id(run): [point for point in run.curve if point.position is not None] for run in subject.runs}

    def best(mine: RunFacts, point: Point, sign: int) -> float:
        found = -math.inf
        for run in subject.runs:
            later = (other for other in curves[id(run)] if (other.position or 0.0) > (point.position or 0.0))
            after = next(later, None) if run is not mine else None
            if after is not None:
                found = max(found, sign * after.value)
        return found

    return best
