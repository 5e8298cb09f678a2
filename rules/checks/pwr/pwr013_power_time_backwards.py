"""The times of a meter's readings go backwards.

## What it does
Expects each reading to be later than the one before it; the others are left out of the sum.

## Why it matters
If a clock was set back, the times of the other readings cannot be trusted either.

## Example
A reading stamped 259 ms before the one above it.

## Instead
Stamp readings with a monotonic clock, as the power agent does.

## Source
The published logs of MLPerf Training v4.0 have times that go back by up to 259 ms.
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
    for run in voided(result, ruleset, VoidReason.TIME_BACKWARDS):
        found = worst(run.energy, lambda integral: integral.num_backwards, over=0)
        assert found is not None  # one of its meters voids the energy
        defects = run.node(found.part.node).defects_of("time_backwards")
        yield Fault(
            run.path(found.part.node),
            defects[0].lineno,  # the reader of the log reports every time that goes back
            f"the time of {found.part.meter} goes backwards at {found.value:g} readings{found.more}; {NOT_RANKED}",
            {"num_backwards": found.value, "num_others": found.num_others},
        )
