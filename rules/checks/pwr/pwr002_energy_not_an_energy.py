"""The value of `tta_energy` is not an energy, or does not state its source.

## What it does
Expects `energy_j` to be null with the source "none", or a finite number from 0 up with the source "measured" or
"estimated"; and checks the form of class, half width, coverage, void reasons and meters if they are present.

## Why it matters
Missing and zero are different: a run that costs nothing would win every ranking by energy.

## Example
energy_j = 0 because there was no meter; energy_j = -5; class "A+".

## Instead
State nothing (null, source none) if nothing was metered.

## Source
MLPerf power measurement rules; harness/energy/run_energy.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from harness.base.values import finite_number
from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.power_format import MeterClass
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    event = log.first(keys.TTA_ENERGY)
    if event is not None and isinstance(event.value, dict):
        fault = next(_faults(event.value), None)
        if fault is not None:
            yield Fault(str(log.path), event.lineno, f"the energy: {fault}")


def _faults(value: Mapping[str, object]) -> Iterator[str]:
    energy_j, source = value.get("energy_j"), value.get("source")
    joules = finite_number(energy_j)
    if source not in ("measured", "estimated", "none"):
        yield f"its source is {printable(source, 40)!r}; it must be measured, estimated or none"
    elif energy_j is None:
        if source != "none":
            yield f"energy_j is null, but its source is {source!r}"
    elif joules is None or joules < 0:
        yield f"energy_j is {printable(energy_j, 40)}; it must be a finite number from 0 up, in joules"
    elif source == "none":
        yield f"energy_j is {joules:g}, but its source is 'none'"
    if "meter" in value:
        return  # from before there were power logs; it has no more fields
    meter_class = value.get("class")
    if meter_class not in get_args(MeterClass):
        yield f"its class is {printable(meter_class, 40)!r}; it must be one of {', '.join(get_args(MeterClass))}"
    elif (meter_class == "N") != (energy_j is None):
        yield f"its class is {meter_class}, but energy_j is {printable(energy_j, 40)}; N means not measured"
    for name, most in (("u95_j", float("inf")), ("coverage", 1.0)):
        number = finite_number(value.get(name))
        if value.get(name) is not None and (number is None or not 0 <= number <= most):
            yield f"{name} is {printable(value.get(name), 40)}; it must be null or a number from 0 up to {most:g}"
    for name in ("void", "meters"):
        names = value.get(name)
        if not isinstance(names, list) or not all(isinstance(item, str) for item in names):
            yield f"{name} is {printable(names, 40)}; it must be a list of strings"
