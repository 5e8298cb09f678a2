"""At the same point of training, one run's quality is far better than that of the others.

## What it does
Compares each evaluation with those of the other runs of the result at the same position, relative to their spread.

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

import statistics
from collections.abc import Iterator

from harness.checker.audit.facts import Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "result"
LIMITS = ("min_others", "max_spreads", "min_relative")


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    at: dict[float, list[float]] = {}
    for run in subject.runs:
        for point in run.curve:
            if point.position is not None:
                at.setdefault(point.position, []).append(point.value)
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
            if (point.value < middle) == (subject.standard.direction == "max"):
                continue  # a run that falls behind is slow, not suspicious
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
