"""A line has a value that the round does not permit.

## What it does
Compares every line of a key with its constraints: a permitted value, a value that follows from another key's, a field
that its metadata must have.

## Why it matters
In the closed division the model, its optimiser and most hyperparameters are the reference's.

## Example
`opt_name` is "sgd" where only "adam" is permitted.

## Instead
Use a permitted value, or submit to the open division.

## Source
MLPerf training rules, "Hyperparameters and Optimizer"; the rule files of MLCommons' compliance checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is not None:
        yield from compliance.faults(log, ruleset.round, "value")
