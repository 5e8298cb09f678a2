"""A hyperparameter of the rules is not in the log.

## What it does
Expects every hyperparameter of the benchmark in `tta_config` and as an event of its own.

## Why it matters
What is not stated cannot be compared; a default that no one sees may be any value.

## Example
The rules constrain `opt_momentum`, and the log does not say what it was.

## Instead
Submit the log as it was written; the referee writes all of them.

## Source
MLPerf training rules, "Hyperparameters", and the logging of each of them.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    for name in rules.hyperparameters:
        # LOG011 reports a missing global_batch_size event.
        if name not in found:
            yield Fault(str(log.path), log.line_of(keys.TTA_CONFIG), f"tta_config has no hyperparameter {name}")
        elif log.first(name) is None and name != keys.GLOBAL_BATCH_SIZE:
            yield Fault(str(log.path), log.line_of(keys.TTA_CONFIG), f"{name} has no line of its own")
