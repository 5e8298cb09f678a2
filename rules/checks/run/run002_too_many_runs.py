"""A result has more runs than the rules allow.

## What it does
Counts the logs of a results folder, including those that cannot be read, and compares the count with `num_runs`.

## Why it matters
Running more often and leaving out more gives a better mean from the same machine.

## Example
7 runs, 5 required.

## Instead
Decide on the number before the first run. Make a new result with exactly that many; do not choose among runs.

## Source
MLPerf training rules, "Benchmark Results": running many sets to find the lowest is prohibited.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import RESULT_PATTERN
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is None:
        return
    num_runs = len(result.runs) + sum(bool(RESULT_PATTERN.fullmatch(part.path.name)) for part in result.unreadable)
    if num_runs > rules.num_runs:
        yield Fault(str(result.path), None, f"the result has {num_runs} runs; it must have {rules.num_runs}")
