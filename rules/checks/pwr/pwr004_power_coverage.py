"""The readings of a meter do not cover the run.

## What it does
Expects the readings of every meter that is added up to cover at least 98 % of the time from `run_start` to `run_stop`
(`min_coverage` of the rules). An energy counter covers the time between its first and its last reading.

## Why it matters
Power is held constant over time that no reading covers. A meter that starts late or stops early measures another run.

## Example
Logging ended 40 s before `run_stop` of a two-minute run.

## Instead
Keep the meters running from before `run_start` until after `run_stop`, as `tta run --meter` does.

## Source
MLPerf power measurement rules: the readings cover the timed portion. Of the 1,432 published AC node logs of Training
v4.0, 198 cover less than 98 % of their run.
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
    least = ruleset.energy.min_coverage
    for run in voided(result, ruleset, VoidReason.COVERAGE):
        found = worst(run.energy, lambda integral: -integral.coverage, over=-least)
        assert found is not None  # one of its meters voids the energy
        covered = -found.value
        yield Fault(
            run.path(found.part.node),
            None,
            f"the readings of {found.part.meter} cover {covered:.1%} of the run{found.more}; "
            f"at least {least:.0%} is required; {NOT_RANKED}",
            {"coverage": covered, "num_others": found.num_others},
        )
