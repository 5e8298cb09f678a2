"""The runs of a result do not say alike which result they repeat.

## What it does
Reads `tta_reproduces` in each log: the digest of the logs of another result. All runs of a result have the same, or
none.

## Why it matters
A leaderboard shows a reproduction next to what it repeats. Runs that repeat different results, or only some of which
repeat one, were put together afterwards.

## Example
result_0.txt repeats 5d41…, result_1.txt nothing.

## Instead
Submit the folder that `tta reproduce` has made, as it is.

## Source
docs/explanation/reproduction.md, "A reproduction is a result".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.repeated import repeated
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for log in result.runs:
        try:
            repeated((result.runs[0], log))
        except ValueError as error:
            yield Fault(str(log.path), log.line_of(keys.TTA_REPRODUCES), str(error))
            return
