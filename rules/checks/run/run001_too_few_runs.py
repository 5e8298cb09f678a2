"""A result has fewer runs than the rules require.

## What it does
Counts the logs of a results folder, including those that cannot be read, and compares the count with `num_runs`,
or with `open_runs` in the open division. A reproduction (`tta_reproduces` in its logs) may have as few as the first
look at it needs, five; without the runs that the rules require it has no score.

## Why it matters
Training is random; the mean of fewer runs depends more on luck.

## Example
4 runs, 5 required.

## Instead
`tta run --resume` adds the missing ones.

## Source
MLPerf training rules, "Benchmark Results".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.run._runs import num_runs, permitted_runs

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.kind == "log":
        return
    num_found = num_runs(result)
    if num_found == 0:  # no log names a benchmark, so no other check has anything to look at
        yield Fault(str(result.path), None, "the result has no runs")
    elif rules is not None and num_found < (least := permitted_runs(result, rules)[0]):
        yield Fault(str(result.path), None, f"the result has {num_found} of the {least} runs it must have")
