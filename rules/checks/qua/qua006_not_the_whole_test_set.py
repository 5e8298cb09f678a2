"""An evaluation did not look at the whole test set.

## What it does
Compares `num_examples` of every evaluation with `eval_examples` of the benchmark.

## Why it matters
A quality over some of the examples is another quality; over a lucky few it is any quality one likes.

## Example
eval_examples = 8,192, and an accuracy over 4,096 examples.

## Instead
Evaluate every example once, the last incomplete batch too; over several devices, do not count the padding.

## Source
MLPerf training rules, "Quality measure": the same test data, all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import events as key
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is None:
        return
    for event in log.all(key.EVAL_ACCURACY):
        num_examples = event.metadata.get("num_examples")
        if isinstance(num_examples, int) and num_examples != rules.eval_examples:
            yield Fault(
                str(log.path),
                event.lineno,
                f"the evaluation is over {num_examples:,} examples; the test set has {rules.eval_examples:,}",
                {"num_examples": num_examples},
            )
