"""The stated energy differs from the sum of the power logs.

## What it does
Adds up the power logs next to the run's log, from `run_start` to `run_stop`, and compares the sum with `tta_energy`:
the joules must agree within 0.1 %, and the stated class of the meters must not be stronger than the actual one.

## Why it matters
Anyone can repeat the sum; if it differs, one of the two was edited.

## Example
The power logs add up to 36,000 J, but energy_j = 30,000.

## Instead
Submit the log and the power logs as they were written.

## Source
The sum: harness/energy/accounting.py. MLPerf's program scales a trace to the length of the run, even a trace from
another day.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import finite_number
from harness.energy.meter_selection import CLASSES
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import metered

SCOPE = "result"
RELATIVE = 0.001


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in metered(result, ruleset):
        stated = finite_number(run.log.field(keys.TTA_ENERGY, "energy_j"))
        if stated is None:
            continue  # power logs may be added to a run that the referee did not meter
        joules, claimed = run.energy.joules, run.log.field(keys.TTA_ENERGY, "class")
        place = (str(run.log.path), run.log.line_of(keys.TTA_ENERGY))
        if joules is None:
            why = ", ".join(run.energy.void)
            yield Fault(*place, f"energy_j is {stated:.1f} J; the power logs do not give any energy: {why}")
        elif abs(stated - joules) > RELATIVE * joules:
            yield Fault(
                *place,
                f"energy_j is {stated:.1f} J; the power logs add up to {joules:.1f} J",
                {"stated": stated, "derived": joules},
            )
        elif claimed in tuple(CLASSES) and CLASSES.index(claimed) < CLASSES.index(run.energy.meter_class):
            yield Fault(*place, f"the stated class is {claimed}; by the power logs it is {run.energy.meter_class}")
