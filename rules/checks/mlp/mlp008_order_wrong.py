"""Lines are in an order that no run has.

## What it does
Looks before every line for the keys that must precede it, and for those that must not.

## Why it matters
Initialisation, start and stop bound what is timed.

## Example
`run_start` before `init_stop`.

## Instead
Log each event when it happens, from one process.

## Source
The rule files of MLCommons' compliance checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is not None:
        yield from compliance.faults(log, ruleset.round, "order")
