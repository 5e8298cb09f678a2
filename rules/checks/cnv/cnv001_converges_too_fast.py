"""A result needs significantly fewer samples than the reference.

## What it does
Compares the trimmed mean of the samples to target with the reference convergence points at the same global batch size
(one-sided t-test, p < 0.05, with pruning and interpolation). The open division allows other recipes and is left out.

## Why it matters
The closed division fixes the recipe. A result that converges faster than chance allows has changed it.

## Example
The reference needs 96,000 samples on average, at least 89,400 are acceptable, and the result needs 70,000.

## Instead
Compare model, data order, augmentation and initialisation with the reference; or compete in the open division.

## Source
MLPerf training rules, "Reference Convergence Points".
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
    if verdict is not None and verdict.status == "fail":
        yield Fault(
            str(result.path),
            None,
            f"the runs need {verdict.submission_mean:,.0f} samples on average; at least "
            f"{verdict.acceptable_mean:,.0f} are acceptable; the reference needs {verdict.reference_mean:,.0f} "
            f"({verdict.how})",
            {"submission_mean": verdict.submission_mean, "acceptable_mean": verdict.acceptable_mean},
        )
