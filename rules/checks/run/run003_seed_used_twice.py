"""Two runs of a result have the same seed.

## What it does
Compares `seed` over the runs of a result.

## Why it matters
With the same seed a run repeats itself, and a lucky one counts twice.

## Example
`result_1.txt` and `result_4.txt` both have seed 17.

## Instead
Let `tta run` draw the seeds, or give `--seed S`: run k then uses S + k.

## Source
MLPerf training rules, "Random numbers"; since v4.1 seeds must be logged and must differ.
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


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    seen: dict[int, RunLog] = {}
    for log in result.runs:
        seed = log.value(keys.SEED)
        if not is_whole(seed):
            continue
        if seed in seen:
            yield Fault(
                str(log.path), log.line_of(keys.SEED), f"seed {seed} was already used in {seen[seed].path.name}"
            )
        seen.setdefault(seed, log)
