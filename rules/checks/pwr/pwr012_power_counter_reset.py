"""An energy counter was reset, or may have wrapped unseen.

## What it does
Distinguishes wraps, which are added back, from resets, by the counter's range and by how much its device can draw; and
checks for every two readings whether one more wrap would fit between them. A processor's counter that declares no range
is taken to have the smallest in use, 65,000 J.

## Why it matters
After a reset, the joules before it are lost. A second wrap in a gap hides a quarter of a million joules.

## Example
A driver is reloaded in the middle of the run; a package counter that wraps every 14 minutes is read every 20.

## Instead
Let nothing reset the counters during a run, and read them before their device can have drawn a whole range.

## Source
Linux powercap (max_energy_range_uj); NVML: the energy counter starts when the driver is loaded.
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
    for run in voided(result, ruleset, VoidReason.COUNTER_RESET, VoidReason.DOUBLE_WRAP):
        reset = worst(run.energy, lambda integral: integral.num_resets, over=0)
        unsure = worst(run.energy, lambda integral: integral.num_unsure, over=0)
        if reset is not None:
            what = f"{reset.part.meter} was reset {reset.value:g} times during the run{reset.more}"
            yield Fault(run.path(reset.part.node), None, f"{what}; {NOT_RANKED}")
        if unsure is not None:
            what = f"{unsure.part.meter} may have wrapped unseen in {unsure.value:g} gaps{unsure.more}"
            yield Fault(run.path(unsure.part.node), None, f"{what}; {NOT_RANKED}")
