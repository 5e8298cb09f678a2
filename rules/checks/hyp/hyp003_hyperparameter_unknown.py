"""A run has a hyperparameter that the rules do not have.

## What it does
Looks up the names in `tta_config`, and all events that begin with `opt_`, among the benchmark's hyperparameters.

## Why it matters
A switch that is not in the rules has not been permitted.

## Example
`opt_lookahead_steps` = 5 in a benchmark whose reference has no such thing.

## Instead
Leave it out, or ask for it to be added to the rules.

## Source
MLPerf training rules, "Hyperparameters": by default they are those of the reference.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import unknown_name
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is None:
        return
    names = {name: log.line_of(keys.TTA_CONFIG) for name in timeline.hyperparameters(log) or {}}
    names.update({event.key: event.lineno for event in log.events if event.key.startswith(keys.HYPERPARAMETER_PREFIX)})
    for name, line in names.items():
        if name not in rules.hyperparameters:
            yield Fault(str(log.path), line, unknown_name("hyperparameter", name, rules.hyperparameters))
