"""An energy is not a number of joules, or does not say where it is from.

## What it does
Expects `energy_j` in `tta_energy` to be null, with the source "none", or a finite number from 0 up, with the source
"measured" or "estimated"; and every power reading to be a finite number from 0 up.

## Why it matters
Missing and zero are two things: a run that costs nothing would win every ranking by energy.

## Example
energy_j = 0 because there was no meter; energy_j = -5.

## Instead
State nothing (null, source none) where nothing was metered.

## Source
MLPerf power measurement rules; harness/energy.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness import course
from harness import events as key
from harness.errors import printable
from harness.findings import Fault
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runlog import RunLog

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    event = log.first(key.TTA_ENERGY)
    if event is not None and isinstance(event.value, dict):
        energy_j, source = event.value.get("energy_j"), event.value.get("source")
        joules = course.number(energy_j)
        fault = None
        if source not in ("measured", "estimated", "none"):
            fault = f"its source is {printable(source, 40)!r}; it must be measured, estimated or none"
        elif energy_j is None:
            fault = None if source == "none" else f"it is missing, and its source is {source!r}"
        elif joules is None or joules < 0:
            fault = f"energy_j is {printable(energy_j, 40)}; it must be a finite number from 0 up, in joules"
        elif source == "none":
            fault = f"energy_j is {joules:g}, and its source is 'none'"
        if fault is not None:
            yield Fault(str(log.path), event.lineno, f"the energy: {fault}")
    for reading in log.all(key.POWER_READING):
        watts = course.number(reading.value)
        if watts is None or watts < 0:
            shown = printable(reading.value, 40)
            yield Fault(
                str(log.path), reading.lineno, f"a power reading is {shown}; it must be a finite number from 0 up, in W"
            )
            return
