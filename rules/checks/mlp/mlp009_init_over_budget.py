"""Initialisation took longer than the round allows.

## What it does
Compares the time from the earliest `init_start` to `init_stop` with the round's limit for the division.

## Why it matters
Work hidden in initialisation is not on the clock.

## Example
1,900 s in the closed division of round 5.1.0, which allows 1,800 s.

## Instead
Start the clock when the limit is reached.

## Source
MLPerf training rules, "Run Results". The limits are those of MLCommons' compliance checker.
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
        yield from compliance.faults(log, ruleset.round, "init")
