"""Two runs have the same qualities throughout, or but for a few.

## What it does
Compares the values of all evaluations over the runs of a result, where there are at least three; two runs are
told as well if two thirds of the later one's values are the other's at the same places, and at least three different
ones are; each run is held against the first 50 curves. Runs with equal times as well are RUN005's, runs with equal
seeds RUN003's.

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

from collections.abc import Iterator, Mapping
from itertools import islice

from harness import course
from harness import events as key
from harness.findings import Fault
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runlog import RunLog
from harness.submission import Result

SCOPE = "result"
MIN_EVALUATIONS = 3
SHARE = 2 / 3
MAX_CURVES = 50  # a folder of ten thousand runs is told in time, too
Curve = tuple[float, ...]


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    curves: dict[Curve, RunLog] = {}  # with the first run that has it
    for log in result.runs:
        curve = tuple(value for _, value in course.qualities(log))
        if len(curve) < MIN_EVALUATIONS or len(set(curve)) == 1:
            continue
        first = curves.get(curve)
        if first is None:
            what = _alike(log, curve, curves)
            curves[curve] = log
        elif _times(log) != _times(first) and log.value(key.SEED) != first.value(key.SEED):
            what = f"all {len(curve)} qualities are those of {first.path.name}"
        else:
            what = None
        if what is not None:
            yield Fault(str(log.path), log.line_of(key.EVAL_ACCURACY), f"{what}, and the seed is another")


def _alike(log: RunLog, curve: Curve, curves: Mapping[Curve, RunLog]) -> str | None:
    """How many values are those of which run before, the first with so many and another seed; None if there is none."""
    for other_curve, other in islice(curves.items(), MAX_CURVES):
        same = [value for value, other_value in zip(curve, other_curve, strict=False) if value == other_value]
        is_alike = len(set(same)) >= MIN_EVALUATIONS and len(same) >= SHARE * len(curve)
        if is_alike and log.value(key.SEED) != other.value(key.SEED):
            return f"{len(same)} of {len(curve)} qualities are those of {other.path.name}"
    return None


def _times(log: RunLog) -> list[float]:
    start = log.first(key.RUN_START)
    return [] if start is None else [log.seconds(start, event) for event, _ in course.qualities(log)]
