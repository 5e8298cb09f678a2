"""At the same point of training, one run's quality is far better than that of the others.

## What it does
Compares each evaluation with those of the other runs of the result at the same position, relative to their spread. A
value that another run has by its next evaluation is a run that learns a little earlier, and not reported.

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

import itertools
import math
import statistics
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from harness.checker.audit.facts import Point, RunFacts, Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "result"
ONLINE_ONLY = True
LIMITS = ("min_others", "max_spreads", "min_relative")


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    at: dict[float, list[float]] = {}
    for run in subject.runs:
        for point in run.curve:
            if point.position is not None:
                at.setdefault(point.position, []).append(point.value)
    sign = 1 if subject.standard.direction == "max" else -1
    ahead = _by_next_evaluation(subject.runs, sign)
    for run in subject.runs:
        worst: tuple[float, Evidence] | None = None
        for point in run.curve:
            others = list(at.get(point.position, [])) if point.position is not None else []
            if len(others) <= rule["min_others"]:
                continue
            others.remove(point.value)
            middle = statistics.median(others)
            spread = statistics.median(abs(value - middle) for value in others)
            limit = max(rule["max_spreads"] * spread, rule["min_relative"] * max(abs(value) for value in others))
            away = sign * (point.value - middle)  # a run that falls behind is slow
            if away <= limit or sign * point.value <= ahead(run, point):
                continue  # a run that is ahead by one evaluation is fast
            times = away / limit if limit > 0 else math.inf
            if worst is None or times > worst[0]:
                message = (
                    f"the quality at {point.position:g} {point.unit} is {point.value:g}; the median of "
                    f"{len(others)} other runs there is {middle:g}, and they differ by about {spread:.2g}"
                )
                found = evidence(run.path, point.line, message, times / 10, value=point.value, median=middle)
                worst = (times, found)
        if worst is not None:
            yield worst[1]


def _by_next_evaluation(runs: Sequence[RunFacts], sign: int) -> Callable[[RunFacts, Point], float]:
    """A function that gives the best value, times `sign`, of the other runs by the evaluation after a point's."""
    curves = []
    for run in runs:
        placed = [(point.position, sign * point.value) for point in run.curve if point.position is not None]
        # By the first evaluation that is further than all before it: positions may decrease.
        curves.append((run, list(itertools.accumulate((place for place, _ in placed), max)), placed))

    def best(mine: RunFacts, point: Point) -> float:
        assert point.position is not None
        after = [(placed, bisect_right(far, point.position)) for run, far, placed in curves if run is not mine]
        return max((placed[nth][1] for placed, nth in after if nth < len(placed)), default=-math.inf)

    return best
