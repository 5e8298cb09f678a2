"""An energy is stated, and nothing was metered.

## What it does
Where `tta_energy` says measured or estimated, expects a meter and at least two power readings in the log.

## Why it matters
Energy is the area under the power. Without readings it is a claim.

## Example
energy_j = 1,200, source measured, and no `power_reading` in the log.

## Instead
Run with `--meter`; the referee reads it and adds up.

## Source
MLPerf power measurement rules: readings that cover the timed portion.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness import events as key
from harness.errors import printable
from harness.findings import Fault
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runlog import RunLog

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    event = log.first(key.TTA_ENERGY)
    source, meter = log.field(key.TTA_ENERGY, "source"), log.field(key.TTA_ENERGY, "meter")
    if event is None or source not in ("measured", "estimated"):
        return  # a number without a source is PWR002's
    num_readings = len(log.all(key.POWER_READING))
    if meter in (None, "", "none"):
        yield Fault(
            str(log.path), event.lineno, f"the energy is said to be {printable(source, 20)}, but no meter is named"
        )
    elif num_readings < 2:
        yield Fault(
            str(log.path),
            event.lineno,
            f"the energy is said to be {printable(source, 20)}, but the log has {num_readings} power readings; "
            "it needs at least 2",
        )
