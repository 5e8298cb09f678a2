"""Two runs have the same qualities throughout, or but for a few.

## What it does
Compares the values of all evaluations over the runs of a result, where there are at least three; two runs are
told as well if two thirds of the later one's values are the other's at the same places, or differ by less than a
ten-thousandth of the step that the quality usually makes from one evaluation to the next, and at least three different
ones are; each run is held against the first 50 curves. Runs with equal times as well are RUN005's, runs with equal
seeds RUN003's.

## Why it matters
Different seeds lead to different curves. The same curve twice is a seed that was not used, or a copy with other
times; and one value of it is soon changed, or the ninth digit of all.

## Example
Two runs with seeds 17 and 23, both 0.5120, 0.8030, 0.9310.

## Instead
Find out whether the workload uses its seed. With coarse qualities (few examples) it can be chance.

## Source
Forensics on published logs: distinct seeds with identical trajectories. Over two thirds of their evaluations no two
published runs are closer than 0.007 steps, and no two runs of ours closer than 0.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from harness.checker.audit import similarity
from harness.checker.audit.similarity import Trail
from harness.findings import Fault
from harness.log import events as key
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline
from harness.submission.result import Result

SCOPE = "result"
MIN_EVALUATIONS = 3
MAX_OFF_STEPS = 1e-4
MAX_CURVES = 50  # a folder of ten thousand runs is told in time, too
Curve = tuple[float, ...]


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    curves: dict[Curve, tuple[RunLog, Trail]] = {}  # with the first run that has it
    for log in result.runs:
        curve = tuple(value for _, value in timeline.qualities(log))
        if len(curve) < MIN_EVALUATIONS or len(set(curve)) == 1:
            continue
        first, _ = curves.get(curve, (None, None))
        if first is None:
            trail = similarity.of_values(curve)
            what = _alike(log, trail, curves)
            curves[curve] = log, trail
        elif _times(log) != _times(first) and log.value(key.SEED) != first.value(key.SEED):
            what = f"all {len(curve)} qualities are those of {first.path.name}"
        else:
            what = None
        if what is not None:
            yield Fault(str(log.path), log.line_of(key.EVAL_ACCURACY), f"{what}, and the seed is another")


def _alike(log: RunLog, trail: Trail, curves: Mapping[Curve, tuple[RunLog, Trail]]) -> str | None:
    """How many values are those of which run before, the first with so many and another seed; None if there is none."""
    for other, other_trail in islice(curves.values(), MAX_CURVES):
        found = similarity.alike(trail, other_trail, MAX_OFF_STEPS)
        if found is not None and log.value(key.SEED) != other.value(key.SEED):
            but = f", but for {found.off_steps:.1g} of the usual step between two of them" if found.off_steps else ""
            return f"{found.num} of {len(trail.numbers)} qualities are those of {other.path.name}{but}"
    return None


def _times(log: RunLog) -> list[float]:
    start = log.first(key.RUN_START)
    return [] if start is None else [log.seconds(start, event) for event, _ in timeline.qualities(log)]
