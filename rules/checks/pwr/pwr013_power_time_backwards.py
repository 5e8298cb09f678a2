"""The times of a meter's readings go back.

## What it does
Expects each reading to be later than the one before it; those that are not are left out of the sum.

## Why it matters
A clock that was set back tells nothing about when the other readings were taken.

## Example
A reading stamped 259 ms before the one above it.

## Instead
Stamp readings with a monotonic clock, as the power agent does.

## Source
The published logs of MLPerf Training v4.0 have times that go back by up to 259 ms.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, voided, worst

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in voided(result, ruleset, "time_backwards"):
        found = worst(run.energy, lambda integral: integral.num_backwards, over=0)
        assert found is not None  # a meter of it is what voids the energy
        defects = run.node(found.part.node).defects_of("time_backwards")
        yield Fault(
            run.path(found.part.node),
            defects[0].lineno,  # there is one wherever a time goes back
            f"{found.value:g} readings of {found.part.meter} go back in time{found.more}; {NOT_RANKED}",
            {"num_backwards": found.value, "num_others": found.num_others},
        )
