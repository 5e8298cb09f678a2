"""A result has more runs than the rules want.

## What it does
Counts the logs of a results folder, those that cannot be read too, and compares with `num_runs`.

## Why it matters
Who runs more often and leaves out more has a better mean from the same machine.

## Example
7 runs, 5 wanted.

## Instead
Decide on the number before the first run. Make a new result with exactly that many; do not choose among runs.

## Source
MLPerf training rules, "Benchmark Results": running many sets to find the lowest is prohibited.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import RESULT_PATTERN, Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is None:
        return
    num_runs = len(result.runs) + sum(bool(RESULT_PATTERN.fullmatch(part.path.name)) for part in result.unreadable)
    if num_runs > rules.num_runs:
        yield Fault(str(result.path), None, f"the result has {num_runs} runs; it must have {rules.num_runs}")
