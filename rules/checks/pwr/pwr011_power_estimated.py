"""Too much of an energy is modelled.

## What it does
Expects at most 10 % of the joules (`max_estimated_share` of the rules) to come from models or constants.

## Why it matters
What is modelled was chosen, not measured: it must not be ranked against measurements.

## Example
16,100 W for the switches of nine nodes, a quarter of the total.

## Instead
Meter it. Estimated energy is shown separately.

## Source
Of the published energies of MLPerf Training v4.0 with several nodes, 12 to 32 % is a constant for the switches.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.energy.reasons import VoidReason
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, voided

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in voided(result, ruleset, VoidReason.ESTIMATED_SHARE):
        share = run.energy.share_estimated
        yield Fault(
            run.path(),
            None,
            f"{share:.0%} of the energy is estimated; the limit is {ruleset.energy.max_estimated_share:.0%}; "
            f"{NOT_RANKED}",
            {"share_estimated": share},
        )
