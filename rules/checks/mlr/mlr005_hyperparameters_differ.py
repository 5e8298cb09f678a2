"""The runs of a result do not have the same hyperparameters.

## What it does
Compares the last value of every `opt_...` key and of `gradient_accumulation_steps` over the logs of a result, including
runs that failed.

## Why it matters
The reference and the limits are for one set of hyperparameters; with several, the best one could be searched for among
the runs that count.

## Example
`opt_base_learning_rate` is 0.0004 in nine runs and 0.0005 in the tenth.

## Instead
Make all runs of a result with one configuration; only seeds differ.

## Source
MLPerf training rules, "Hyperparameters". Not checked by MLCommons' programs.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.mlr._differing import differing

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None:
        return
    names = sorted({name for log in result.runs for name in log.counts if name.startswith("opt_")})
    yield from differing(result.runs, [*names, "gradient_accumulation_steps"])
