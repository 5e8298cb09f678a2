"""The seeds of the runs are neither drawn nor in sequence.

## What it does
Looks at seeds within 1,000 of each other: run k of `tta run --seed S` has S + k, and seeds drawn from 2^31 are never
this close. Every seed must be one that `tta run` takes, from 0 to 2,147,483,647. Equal seeds are RUN003's.

## Why it matters
Making fifty runs with the seeds 0 to 49 and submitting the best five as runs 0 to 4 leaves this trace.

## Example
Runs 0 to 4 with the seeds 3, 17, 22, 40 and 41.

## Instead
Submit the runs of one `tta run`, all of them, as they were numbered.

## Source
MLPerf training rules, "Run Results": a result has a fixed number of runs, and none is chosen. Which seeds runs get:
harness/run/benchmark.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import is_whole
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"
NEAR = 1_000
MAX_SEED = 2**31 - 1


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    seeds: dict[int, tuple[RunLog, int]] = {}
    for log in result.runs:
        seed, index = log.value(keys.SEED), log.field(keys.TTA_FORMAT, "index")
        if not is_whole(seed) or not isinstance(index, int):
            continue
        if not 0 <= seed <= MAX_SEED:
            message = f"the seed is {seed}; `tta run` takes 0 to {MAX_SEED:,}"
            yield Fault(str(log.path), log.line_of(keys.SEED), message)
        else:
            seeds.setdefault(seed, (log, index))
    before: tuple[int, int] | None = None
    for seed, (log, index) in sorted(seeds.items()):
        if before is not None and seed - before[0] < NEAR and seed - index != before[0] - before[1]:
            both = f"run {index} has seed {seed} and run {before[1]} seed {before[0]}"
            yield Fault(str(log.path), log.line_of(keys.SEED), f"{both}: neither drawn nor in sequence")
        before = seed, index
