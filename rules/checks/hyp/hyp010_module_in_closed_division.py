"""A run outside the open division was made with a module that nobody has compared with the reference.

## What it does
Looks for a module in `tta_config` of every run whose division is not open. Such a run needs `tta_equivalent`: the
measurement that the module computes what the reference computes, which EQV001 to EQV005 judge.

## Why it matters
The closed division compares systems that train the same model with the same optimiser and schedule. A module replaces
some of these, by the same mathematics or by other.

## Example
`submission_division` is "closed", `tta_config` has the module my_optimizer.py with the part build_optimizer, and there
is no `tta_equivalent`.

## Instead
Run it with `tta run --equivalent FILE` if it computes the same in another way, with `--division open --module FILE` if
it does not, or without a module.

## Source
MLPerf training rules, "Divisions": a closed submission uses the reference's model and optimiser, or what is
mathematically equivalent.
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
    if module is not None and division != "open" and log.first(keys.TTA_EQUIVALENT) is None:
        name = module.get("name") if isinstance(module, dict) else module
        yield Fault(
            str(log.path),
            log.line_of(keys.TTA_CONFIG),
            f"the run used the module {printable(name, 80)} in the division {printable(division, 40)}; "
            f"only the open division takes one without {keys.TTA_EQUIVALENT}",
        )
