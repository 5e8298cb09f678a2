"""A meter gave no reading for too long.

## What it does
Expects no more than 2 s (`max_gap_s` of the rules) between two good readings of a meter within the run, and between
the run's edges and the readings next to them.

## Why it matters
What a machine drew in a gap is a guess, and a gap lies where somebody wants it.

## Example
A sampler that stalled for 23 s while the machine was at its busiest.

## Instead
Read every second or faster, and give the sampler the priority to do so.

## Source
MLPerf power measurement rules ask for a reading a second; the published logs have gaps of up to 23 s.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, voided, worst

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    most_s = ruleset.energy.max_gap_s
    for run in voided(result, ruleset, "gap"):
        found = worst(run.energy, lambda integral: integral.longest_gap_s, over=most_s)
        assert found is not None  # a meter of it is what voids the energy
        yield Fault(
            run.path(found.part.node),
            None,
            f"{found.part.meter} gave no reading for {found.value:.1f} s{found.more}; "
            f"{most_s:g} s is the most; {NOT_RANKED}",
            {"gap_s": found.value, "num_others": found.num_others},
        )
