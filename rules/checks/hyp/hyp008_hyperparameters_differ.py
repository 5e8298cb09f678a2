"""The runs of one result have different hyperparameters.

## What it does
Compares the hyperparameters of every run with those of the first; the seed is not one of them.

## Why it matters
A result is the mean of runs of one recipe. A mean over several recipes is the time of none.

## Example
Four runs with a global batch of 128, the fifth with 256.

## Instead
Run all of them with the same hyperparameters.

## Source
MLPerf training rules, "Benchmark Results" and "Hyperparameters".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    configured = [(log, found) for log in result.runs if (found := timeline.hyperparameters(log)) is not None]
    for log, found in configured:
        first_log, first = configured[0]
        both = {**first, **found}
        differing = [name for name in both if first.get(name) != found.get(name)]
        if differing:
            shown = "; ".join(
                f"{printable(name, 40)} is {printable(found.get(name), 40)} instead of {printable(first.get(name), 40)}"
                for name in differing[:3]
            )
            yield Fault(str(log.path), log.line_of(keys.TTA_CONFIG), f"different from {first_log.path.name}: {shown}")
