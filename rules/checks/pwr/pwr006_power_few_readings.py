"""A meter of power gave too few readings within the run.

## What it does
Expects at least 60 good readings (`min_samples` of the rules) from every meter of power that is added up, from
`run_start` to `run_stop`. An energy counter needs two, which bracket the run.

## Why it matters
In a short run that is read once a second, the two edges are a large part of the whole.

## Example
A run of 20 s, read once a second.

## Instead
Let the work take longer or be repeated within the run, as MLPerf does, for example in a longer benchmark; or read the
meter more often (`--meter-period`), or use an energy counter.

## Source
MLPerf power measurement rules, "Measure max(a run, 60 power samples)": a run with fewer is extended until there are 60.
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
        found = worst(run.energy, lambda integral: 0 if integral.is_counter else least - integral.num_samples, over=0)
        assert found is not None  # one of its meters voids the energy
        num_samples = round(least - found.value)
        times = least / max(num_samples, 1)
        yield Fault(
            run.path(found.part.node),
            None,
            f"{found.part.meter} has {num_samples} good readings within the run{found.more}; a meter of power must "
            f"have at least {least}: repeat the work until the run is {times:.1f} times as long, or read the meter "
            f"{times:.1f} times as often; {NOT_RANKED}",
            {"num_samples": num_samples, "num_others": found.num_others},
        )
