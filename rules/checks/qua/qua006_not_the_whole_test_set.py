"""An evaluation did not cover the whole test set.

## What it does
Compares `num_examples` of every evaluation, and of the one before training in `tta_initial`, with `eval_examples` of
the benchmark.

## Why it matters
The quality over some of the examples is a different quality; over a lucky few it can be anything.

## Example
eval_examples = 8,192, and an accuracy over 4,096 examples.

## Instead
Evaluate every example exactly once, including the last incomplete batch; on several devices, do not count padding.

## Source
MLPerf training rules, "Quality measure": the same test data, all of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is None:
        return
    covered = [(event, event.metadata.get("num_examples")) for event in log.all(keys.EVAL_ACCURACY)]
    if (initial := log.first(keys.TTA_INITIAL)) is not None:
        covered.insert(0, (initial, log.field(keys.TTA_INITIAL, "num_examples")))
    for event, num_examples in covered:
        if isinstance(num_examples, int) and num_examples != rules.eval_examples:
            yield Fault(
                str(log.path),
                event.lineno,
                f"the evaluation covers {num_examples:,} examples; the test set has {rules.eval_examples:,}",
                {"num_examples": num_examples},
            )
