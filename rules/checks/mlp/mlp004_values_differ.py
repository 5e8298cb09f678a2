"""A key that may occur once occurs with different values.

## What it does
Compares the values of all lines of a key that may occur only once.

## Why it matters
If there are two values, it is not known which was the run's.

## Example
`global_batch_size` 256 and, from another process, 512.

## Instead
Log from one process, once.

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
        yield from compliance.faults(log, ruleset.round, "differs")
