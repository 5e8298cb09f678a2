"""A run outside the open division was made with a module.

## What it does
Looks for a module in `tta_config` of every run whose division is not open.

## Why it matters
The closed division compares systems that train the same model with the same optimiser and schedule. A module replaces
some of these.

## Example
`submission_division` is "closed", and `tta_config` has the module my_optimizer.py with the part build_optimizer.

## Instead
Run it with `tta run --division open --module FILE`, or without a module.

## Source
MLPerf training rules, "Divisions": a closed submission uses the reference's model and optimiser.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    module, division = log.field(keys.TTA_CONFIG, "module"), log.value(keys.SUBMISSION_DIVISION)
    if module is not None and division != "open":
        name = module.get("name") if isinstance(module, dict) else module
        yield Fault(
            str(log.path),
            log.line_of(keys.TTA_CONFIG),
            f"the run used the module {printable(name, 80)} in the division {printable(division, 40)}; "
            "only the open division takes one",
        )
