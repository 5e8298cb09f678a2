"""A power log was not written during its run.

## What it does
Aligns the power logs that the referee wrote with the run's log, by the clock that is used to add up their energy: all
readings are between the first and the last line of the run's log, with 2 s of slack. For an imported log
(`tta power import`), whose meters all have names beginning with csv:, compares the wall clock and the monotonic clock
with those of the run, to a second.

## Why it matters
Readings from the hour before the run are idle ones. Shifted by `tta_clock`, by a clock offset or by their own times,
they cover the run, and every reading is genuine.

## Example
The readings begin 40 s before the first line of their run.

## Instead
Submit the log and the power logs as they were written.

## Source
The referee starts the meters after `tta_clock` and stops them before `tta_energy`: harness/run/referee.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.energy.from_logs import window_ns
from harness.energy.plausibility import outside_run
from harness.energy.reasons import VoidReason
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, voided

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in voided(result, ruleset, VoidReason.OUTSIDE_RUN):
        window = window_ns(run.log)
        assert window is not None  # without one, PWR020 reports the run
        for node in run.log.nodes:
            if (why := outside_run(node, run.log, window)) is not None:
                yield Fault(str(node.path), None, f"{why}; {NOT_RANKED}")
