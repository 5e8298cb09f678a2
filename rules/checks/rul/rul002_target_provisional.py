"""The target of the benchmark is provisional.

## What it does
Notes a result of a benchmark whose rules call the target provisional.

## Why it matters
The target is then from a publication or an estimate, and not from reference runs made under these rules. It may change,
and results under another target are of other terms and do not compare with this one.

## Example
`image_classification_full`, whose target is MLPerf's, before twenty runs of the reference.

## Instead
Nothing. The organiser makes the reference runs (`tta run --full-curve`), sets the target (`tta target`) and removes
`provisional`.

## Source
docs/reference/rules-yaml.md, `BenchmarkRules`.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is not None and rules.provisional:
        yield Fault(
            str(result.path), None, f"the target {rules.metric.name} {rules.target:g} is provisional and may change"
        )
