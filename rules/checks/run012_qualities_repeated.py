"""Two runs have the same qualities throughout, or but for a few.

## What it does
Compares the values of all evaluations over the runs of a result, where there are at least three; two runs are
told as well if two thirds of their values are the same at the same places, and at least three different ones are. Runs
with equal times as well are RUN005's, runs with equal seeds RUN003's.

## Why it matters
Different seeds lead to different curves. The same curve twice is a seed that was not used, or a copy with other
times; and one value of it is soon changed.

## Example
Two runs with seeds 17 and 23, both 0.5120, 0.8030, 0.9310.

## Instead
Find out whether the workload uses its seed. With coarse qualities (few examples) it can be chance.

## Source
Forensics on published logs: distinct seeds with identical trajectories.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness import course
from harness import events as key
from harness.findings import Fault
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runlog import RunLog
from harness.submission import Result

SCOPE = "result"
MIN_EVALUATIONS = 3
SHARE = 2 / 3
Point = tuple[int, float]  # which evaluation of its run, and its value


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    seen: dict[tuple[float, ...], RunLog] = {}
    points: dict[Point, RunLog] = {}
    for log in result.runs:
        values = tuple(value for _, value in course.qualities(log))
        first = seen.setdefault(values, log)
        other, num_same = _alike(values, points, log)
        if len(values) < MIN_EVALUATIONS or len(set(values)) == 1:
            continue
        if first is not log:
            is_told = log.value(key.SEED) != first.value(key.SEED) and _times(log) != _times(first)
            what = f"all {len(values)} qualities are those of {first.path.name}"
        else:
            is_told = other is not None and log.value(key.SEED) != other.value(key.SEED)
            what = f"{num_same} of {len(values)} qualities are those of {other.path.name}" if other else ""
        if is_told:
            yield Fault(str(log.path), log.line_of(key.EVAL_ACCURACY), f"{what}, and the seed is another")


def _alike(values: tuple[float, ...], points: dict[Point, RunLog], log: RunLog) -> tuple[RunLog | None, int]:
    """The run before with most of the same values at the same places, and how many; None if they are few."""
    shared: dict[str, tuple[RunLog, list[float]]] = {}
    for point in enumerate(values):
        first = points.setdefault(point, log)
        if first is not log:
            shared.setdefault(str(first.path), (first, []))[1].append(point[1])
    other, same = max(shared.values(), key=lambda item: len(item[1]), default=(None, []))
    is_alike = len(set(same)) >= MIN_EVALUATIONS and len(same) >= SHARE * len(values)
    return (other, len(same)) if is_alike else (None, 0)


def _times(log: RunLog) -> list[float]:
    start = log.first(key.RUN_START)
    return [] if start is None else [log.seconds(start, event) for event, _ in course.qualities(log)]
