"""A meter gave too few readings within the run.

## What it does
Expects 60 good readings (`min_samples` of the rules) of every meter that is added up from `run_start` to `run_stop`.

## Why it matters
Of a short run that is read once a second, the two edges are a large part.

## Example
A run of 20 s, read once a second.

## Instead
Read faster where runs are short: `--meter-period`.

## Source
The least number of readings is ours: with 60 of them the edges' seconds are some per cent of the run.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, voided, worst

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    least = ruleset.energy.min_samples
    for run in voided(result, ruleset, "few_samples"):
        found = worst(run.energy, lambda integral: -integral.num_samples, over=-least)
        assert found is not None  # a meter of it is what voids the energy
        num_samples = round(-found.value)
        yield Fault(
            run.path(found.part.node),
            None,
            f"{found.part.meter} has {num_samples} good readings within the run{found.more}; "
            f"{least} is the least; {NOT_RANKED}",
            {"num_samples": num_samples, "num_others": found.num_others},
        )
