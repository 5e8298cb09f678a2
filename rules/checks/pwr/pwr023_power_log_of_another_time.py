"""A power log was not made while its run was.

## What it does
Lays the power logs that the referee wrote over the run's log, by the clock that their energy is added up by: all
readings lie between the first line of the run's log and the last, give or take 2 s. Of a log that a person brought
(`tta power import`), whose meters are all called csv:, it compares the wall clock and the monotonic one with those of
the run, to a second.

## Why it matters
Readings of the hour before the run are the machine's idle ones. Moved by `tta_clock`, by a clock offset or by their own
times, they cover the run, and every reading is true.

## Example
The readings begin 40 s before the first line of the run that they are of.

## Instead
Hand in log and power logs as they were written.

## Source
The referee starts the meters after `tta_clock` and stops them before `tta_energy`: harness/run/referee.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.energy.from_logs import window_ns
from harness.energy.plausibility import other_time
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, voided

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in voided(result, ruleset, "other_time"):
        window = window_ns(run.log)
        assert window is not None  # without one the run is nowhere: PWR020
        for node in run.log.nodes:
            if (why := other_time(node, run.log, window)) is not None:
                yield Fault(str(node.path), None, f"{why}; {NOT_RANKED}")
