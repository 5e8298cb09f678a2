"""A quality is outside the range of its metric.

## What it does
Compares the value of every evaluation with `quality_range` of the benchmark, both ends included.

## Why it matters
An accuracy of 95 is either 95 % or an error, but it reaches a target of 0.92 either way.

## Example
`eval_accuracy` = 95.1 where the metric is a fraction.

## Instead
Return the metric in the unit that the rules name.

## Source
The ruleset: `quality_range` of the benchmark.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is None:
        return
    low, high = rules.quality_range
    for event, value in timeline.qualities(log):
        if not low <= value <= high:
            yield Fault(
                str(log.path),
                event.lineno,
                f"the {rules.metric.name} is {value:g} {rules.metric.unit}; its range is {low:g} to {high:g}",
            )
