"""A meter gave too few readings within the run.

## What it does
Expects at least 60 good readings (`min_samples` of the rules) from every meter that is added up, from `run_start` to
`run_stop`.

## Why it matters
In a short run that is read once a second, the two edges are a large part of the whole.

## Example
A run of 20 s, read once a second.

## Instead
Read faster if the runs are short: `--meter-period`.

## Source
The minimum is `tta`'s: with 60 readings, the seconds at the edges are a few per cent of the run.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.energy.reasons import VoidReason
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, voided, worst

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    least = ruleset.energy.min_samples
    for run in voided(result, ruleset, VoidReason.FEW_SAMPLES):
        found = worst(run.energy, lambda integral: -integral.num_samples, over=-least)
        assert found is not None  # one of its meters voids the energy
        num_samples = round(-found.value)
        yield Fault(
            run.path(found.part.node),
            None,
            f"{found.part.meter} has {num_samples} good readings within the run{found.more}; "
            f"at least {least} are required; {NOT_RANKED}",
            {"num_samples": num_samples, "num_others": found.num_others},
        )
