"""A result has more runs than the rules allow.

## What it does
Counts the logs of a results folder, including those that cannot be read, and compares the count with `num_runs`,
or with `open_runs` in the open division. A reproduction (`tta_reproduces` in its logs) may have more, because it goes
on until its verdict is clear; it is scored by its first runs, as many as the rules require.

## Why it matters
Running more often and leaving out more gives a better mean from the same machine.

## Example
7 runs, 5 required.

## Instead
The number is fixed before the first run: a result is its first runs, in the order of their numbers, and none is chosen
(docs/explanation/integrity.md).

## Source
MLPerf training rules, "Benchmark Results": running many sets to find the lowest is prohibited.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.run._runs import num_runs, permitted_runs

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is None:
        return
    num_found, most = num_runs(result), permitted_runs(result, rules)[1]
    if num_found > most:
        yield Fault(str(result.path), None, f"the result has {num_found} runs; it must have {most}")
