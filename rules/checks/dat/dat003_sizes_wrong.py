"""The log states different data sizes from the rules.

## What it does
Compares `train_samples` and `eval_samples` with `train_examples` and `eval_examples` of the benchmark.

## Why it matters
These numbers define what an epoch is and what a quality is measured on.

## Example
`eval_samples` is 4,096 where the benchmark has 8,192.

## Instead
Submit the log as it was written, made with the data of the rules.

## Source
MLPerf training rules, "Training and Test Sets". MLPerf's checker passes `train_samples` = "banana".
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
    for name, expected in ((keys.TRAIN_SAMPLES, rules.train_examples), (keys.EVAL_SAMPLES, rules.eval_examples)):
        value = log.value(name)
        if isinstance(value, int) and value != expected:
            yield Fault(str(log.path), log.line_of(name), f"{name} is {value:,}; the rules say {expected:,}")
