"""A meter gave no reading for too long.

## What it does
Allows at most 2 s (`max_gap_s` of the rules) between two good readings of a meter of power, and between an edge of the
run and the nearest reading if there is none beyond it. An energy counter loses nothing between two readings, so that
only the latter is a gap.

## Why it matters
What a machine drew in a gap is a guess, and someone may have chosen where the gap is.

## Example
A sampler that stalled for 23 s while the machine was at its busiest.

## Instead
Read power at least once a second, and give the sampler the priority to do so; or use an energy counter, whose first
reading is before the run and whose last one is after it.

## Source
MLPerf power measurement rules ask for a reading every second; the published logs have gaps of up to 23 s.
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
    most_s = ruleset.energy.max_gap_s
    for run in voided(result, ruleset, VoidReason.GAP):
        found = worst(run.energy, lambda integral: integral.longest_gap_s, over=most_s)
        assert found is not None  # one of its meters voids the energy
        yield Fault(
            run.path(found.part.node),
            None,
            f"{found.part.meter} gave no reading for {found.value:.1f} s{found.more}; "
            f"the limit is {most_s:g} s; {NOT_RANKED}",
            {"gap_s": found.value, "num_others": found.num_others},
        )
