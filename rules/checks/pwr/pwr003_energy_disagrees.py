"""The energy is not what the power logs come to.

## What it does
Adds up the power logs beside the run's log, from `run_start` to `run_stop`, and compares with `tta_energy`: the joules
within 0.1 %, and the class of the meters, which must not be a stronger one.

## Why it matters
The sum can be redone by anybody; where it differs, one of the two was edited.

## Example
The power logs make 36,000 J, energy_j = 30,000.

## Instead
Hand in log and power logs as they were written.

## Source
The sum: harness/energy/accounting.py. MLPerf's program scales a trace to the length of the run, even one from another
day.
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
            continue  # power logs may be laid beside a run that the referee did not meter
        joules, claimed = run.energy.joules, run.log.field(keys.TTA_ENERGY, "class")
        place = (str(run.log.path), run.log.line_of(keys.TTA_ENERGY))
        if joules is None:
            why = ", ".join(run.energy.void)
            yield Fault(*place, f"energy_j is {stated:.1f} J; the power logs make no energy at all: {why}")
        elif abs(stated - joules) > RELATIVE * joules:
            yield Fault(
                *place,
                f"energy_j is {stated:.1f} J; the power logs make {joules:.1f} J",
                {"stated": stated, "derived": joules},
            )
        elif claimed in tuple(CLASSES) and CLASSES.index(claimed) < CLASSES.index(run.energy.meter_class):
            yield Fault(*place, f"the class is said to be {claimed}; the power logs make it {run.energy.meter_class}")
