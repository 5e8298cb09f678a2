"""A result needs significantly fewer or more samples than the reference.

## What it does
Compares the samples to target of a closed result, interpolated between evaluations, with the reference at the same
global batch size (one-sided t-test on logarithms, p < 0.05), and says what follows for the score. CNV001 reports what
neither luck nor tuning explains.

## Why it matters
Up to one honest result in ten is reported here by luck alone. Fewer samples gain nothing: the score multiplies seconds
per sample by the reference's samples. More samples count: a result that needs significantly more is scored with its
own, because a cheaper arithmetic may have bought its speed with them.

## Example
The reference needs 96,000 samples on average; five runs in low precision need 108,000 and are scored with them.

## Instead
Nothing, if it is luck. Otherwise compare precision, data order and hyperparameters with the reference.

## Source
Statistics of `tta`: docs/explanation/statistics.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.cnv._convergence import compared, verdict_of

SCOPE = "result"
_CONSEQUENCES = {
    "faster": "fewer samples gain nothing, since the score uses the reference's",
    "slower": "the score uses the result's own samples",
}


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    verdict = None if rules is None else verdict_of(result, rules)
    if verdict is not None and verdict.status in _CONSEQUENCES:
        yield Fault(str(result.path), None, f"{compared(verdict)}: {_CONSEQUENCES[verdict.status]}")
