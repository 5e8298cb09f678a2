"""The energy is not that of the power readings.

## What it does
Integrates the power readings from `run_start` to `run_stop` and compares with `energy_j`: within 1 %.

## Why it matters
The sum can be redone by anybody; where it differs, one of the two was edited.

## Example
Readings of 300 W over 100 s, energy_j = 3,000.

## Instead
Hand in the log as it was written.

## Source
Energy: harness/energy.py. MLPerf's program scales a trace to the length of the run, even one from another day.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness import course
from harness import events as key
from harness.energy import integrate
from harness.errors import LogError, printable
from harness.findings import Fault
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runlog import RunLog

SCOPE = "log"
RELATIVE = 0.01


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    event, stated = log.first(key.TTA_ENERGY), course.number(log.field(key.TTA_ENERGY, "energy_j"))
    start, stop = log.first(key.RUN_START), log.first(key.RUN_STOP)
    readings = log.all(key.POWER_READING)
    # Fewer than two readings, and those that are no powers, have findings of their own.
    if event is None or stated is None or start is None or stop is None or len(readings) < 2:
        return
    samples = [
        (log.seconds(start, reading), watts)
        for reading in readings
        if (watts := course.number(reading.value)) is not None and watts >= 0
    ]
    try:
        joules = integrate(samples, 0.0, log.seconds(start, stop)).joules
    except LogError as error:
        yield Fault(str(log.path), event.lineno, f"the energy cannot be redone: {printable(error)}")
        return
    if joules is None:
        yield Fault(
            str(log.path),
            event.lineno,
            f"energy_j is {stated:g}, but the power readings do not reach from run_start to run_stop",
        )
    elif abs(stated - joules) > RELATIVE * joules:
        yield Fault(
            str(log.path),
            event.lineno,
            f"energy_j is {stated:.1f} J; the power readings make {joules:.1f} J",
            {"stated": stated, "derived": joules},
        )
