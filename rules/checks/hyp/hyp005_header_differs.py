"""A line of the header contradicts the configuration.

## What it does
Compares benchmark, division, seed and every hyperparameter that has a line of its own with `tta_config`, and the
benchmark in `tta_config` with its workload and suite.

## Why it matters
Some readers look at the lines, some at the configuration. Two answers to one question are one too many.

## Example
`seed` is 17, and `tta_config` says 23.

## Instead
Submit the log as it was written.

## Source
The run: harness/run/referee.py, which writes both from one plan.
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
_NAMES = {keys.SUBMISSION_BENCHMARK: "benchmark", keys.SUBMISSION_DIVISION: "division", keys.SEED: "seed"}


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    config, hyperparameters = log.value(keys.TTA_CONFIG), timeline.hyperparameters(log)
    if not isinstance(config, dict):
        return
    declared = {name: config[field] for name, field in _NAMES.items() if field in config}
    declared.update(hyperparameters or {})
    named = config.get("benchmark") if rules is not None else None
    if named is not None and (ran := f"{config.get('workload')}_{config.get('suite')}") != named:
        yield Fault(
            str(log.path),
            log.line_of(keys.TTA_CONFIG),
            f"tta_config names the benchmark {printable(named, 60)}; its workload and suite are {printable(ran, 60)}",
        )
    for name, value in declared.items():
        event = log.first(name)
        if event is not None and (event.value != value or isinstance(event.value, bool) != isinstance(value, bool)):
            yield Fault(
                str(log.path),
                event.lineno,
                f"{printable(name, 60)} is {printable(event.value, 60)}; tta_config says {printable(value, 60)}",
            )
