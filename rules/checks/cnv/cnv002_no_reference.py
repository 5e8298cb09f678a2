"""No reference exists to compare the convergence with.

## What it does
Reports a closed result whose global batch size is smaller than the smallest or larger than the largest of the reference
convergence points, or a benchmark that has none.

## Why it matters
The score of the closed division multiplies seconds per sample by the reference's samples at this batch size. Without a
reference, a lucky or tuned convergence would count, and no check looks at whether the recipe was followed.

## Example
A global batch of 4,096 where the largest of the reference is 1,024.

## Instead
The organiser runs the reference at that batch size (`tta run --full-curve`, `tta target`).

## Source
MLPerf training rules, "Reference Convergence Points": a batch size beyond them needs new points.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.cnv._convergence import verdict_of

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    verdict = None if rules is None else verdict_of(result, rules)
    # Too few runs and too many misses leave no mean; they have findings of their own.
    if verdict is not None and verdict.status == "missing" and verdict.own_samples is not None:
        yield Fault(str(result.path), None, f"the convergence was not compared: {verdict.how}")
