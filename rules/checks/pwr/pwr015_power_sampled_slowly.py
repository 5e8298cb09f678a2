"""A meter of power was read less than once a second.

## What it does
Expects the median time between two readings of a meter of power to be at most 1 s (`told_step_s` of the rules), plus
one per cent for the scheduler. An energy counter may be read less often.

## Why it matters
What the power does between two readings is not seen. This voids nothing as long as there is no gap.

## Example
Published power logs with a reading every 2.006 s.

## Instead
Read at least once a second.

## Source
MLPerf power measurement rules: at least one reading a second.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.energy.integral import MeterIntegral
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import metered, worst

SCOPE = "result"
SLACK = 1.01


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    most_s = ruleset.energy.told_step_s
    for run in metered(result, ruleset):
        found = worst(run.energy, _step_s, over=SLACK * most_s)
        if found is not None:
            yield Fault(
                run.path(found.part.node),
                None,
                f"{found.part.meter} was read every {found.value:.3f} s{found.more}; the limit is {most_s:g} s",
                {"median_step_s": found.value, "num_others": found.num_others},
            )


def _step_s(integral: MeterIntegral) -> float:
    return 0.0 if integral.is_counter else integral.median_step_s or 0.0
