"""A result needs so few samples that neither luck nor tuning explains it.

## What it does
Compares the samples to target of a closed result, interpolated between evaluations, with the reference at the same
global batch size. Reports a result that needs significantly less than 75 % of them (one-sided t-test on logarithms,
p < 0.0001). The open division allows other recipes and is left out.

## Why it matters
The closed division fixes the recipe; a result that converges this fast trained another one. Luck of the seeds cannot
do it, and tuning within the permitted ranges saved at most 22 % where it was tried. Faster convergence gains nothing in
the score, so the check is about what was run, not about the number.

## Example
The reference needs 96,000 samples on average, and five runs need 48,000.

## Instead
Compare model, data order, augmentation and initialisation with the reference; or compete in the open division.

## Source
MLPerf training rules, "Reference Convergence Points"; the limits are measured on the reference runs of `tta`.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.cnv._convergence import compared, verdict_of

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    verdict = None if rules is None else verdict_of(result, rules)
    if verdict is not None and verdict.status == "too fast":
        yield Fault(
            str(result.path),
            None,
            f"{compared(verdict)}; below {verdict.limit_samples:,.0f} neither luck nor tuning explains it",
            {"own_samples": verdict.own_samples, "limit_samples": verdict.limit_samples},
        )
