"""Two runs have the same qualities throughout.

## What it does
Compares the values of all evaluations over the runs of a result, where there are at least three. Runs with equal times
as well are RUN005's, runs with equal seeds RUN003's.

## Why it matters
Different seeds lead to different curves. The same curve twice is a seed that was not used, or a copy with other times.

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


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    seen: dict[tuple[float, ...], RunLog] = {}
    for log in result.runs:
        values = tuple(value for _, value in course.qualities(log))
        first = seen.setdefault(values, log)
        if len(values) < MIN_EVALUATIONS or len(set(values)) == 1:
            continue
        if log.value(key.SEED) != first.value(key.SEED) and _times(log) != _times(first):
            yield Fault(
                str(log.path),
                log.line_of(key.EVAL_ACCURACY),
                f"all {len(values)} qualities are those of {first.path.name}, and the seed is another",
            )


def _times(log: RunLog) -> list[float]:
    start = log.first(key.RUN_START)
    return [] if start is None else [log.seconds(start, event) for event, _ in course.qualities(log)]
