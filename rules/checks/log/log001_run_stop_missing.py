"""A log does not record the end of its run.

## What it does
Looks for `run_stop`. A run writes it however it ends: target reached, budget spent, crashed or interrupted.

## Why it matters
A log that simply stops says nothing about how its run ended. Read as "not finished yet", it hides a crash; read as "did
not converge", a truncated log passes as the one miss that a result may have.

## Example
The last line of the log is an `eval_accuracy`: the machine was switched off.

## Instead
Delete the log and run again with `tta run --resume`.

## Source
MLPerf training rules, "Run Results". Two published v5.1 logs end without `run_stop` and were accepted.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if log.first(keys.RUN_STOP) is None:
        last = log.events[-1].lineno if log.events else None
        yield Fault(str(log.path), last, "the log ends without run_stop: the run did not finish or the log was cut off")
