"""The runs of a result do not have the same hyperparameters.

## What it does
Compares every opt_... line, by its last value, and gradient_accumulation_steps over the logs of a result. A run that
failed is compared as well.

## Why it matters
The reference and the limits are for one set of hyperparameters; with several, the best one could be looked for among
the runs that count.

## Example
opt_base_learning_rate is 0.0004 in nine runs and 0.0005 in the tenth.

## Instead
Make all runs of a result with one configuration; only seeds differ.

## Source
MLPerf training rules, "Hyperparameters". Not checked by MLCommons' programs.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.mlperf import score
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None:
        return
    names = sorted({name for log in result.runs for name in log.counts if name.startswith("opt_")})
    for name, values in score.differing_values(result.runs, [*names, "gradient_accumulation_steps"]).items():
        (first, _), (second, log) = list(values.items())[:2]
        message = f"{name} is {printable(second, 60)}, and {printable(first, 60)} in {result.runs[0].path.name}"
        yield Fault(str(log.path), log.line_of(name), printable(message))
