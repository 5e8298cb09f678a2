"""A hyperparameter has a value that the rules do not permit.

## What it does
Compares every hyperparameter in `tta_config` with its constraint. In the open division any value may be used, and only
its type is checked. A division that the ruleset does not have is held to the closed rules.

## Why it matters
In the closed division machines compete, not recipes.

## Example
opt_momentum = 0.95 where the rules fix 0.9.

## Instead
Use a permitted value, or compete in the open division.

## Source
MLPerf training rules, "Hyperparameters".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    found = timeline.hyperparameters(log)
    if rules is None or found is None:
        return
    is_open = log.value(keys.SUBMISSION_DIVISION) == "open"
    for name, constraint in rules.hyperparameters.items():
        if name not in found:
            continue
        value = found[name]
        if constraint.has_type(value) if is_open else constraint.permits(value):
            continue
        allowed = f"any {type(constraint.default).__name__}" if is_open else constraint.allowed
        line = log.line_of(name) or log.line_of(keys.TTA_CONFIG)
        yield Fault(
            str(log.path),
            line,
            f"{name} is {printable(value, 60)}; permitted: {allowed}",
            {"hyperparameter": name},
        )
