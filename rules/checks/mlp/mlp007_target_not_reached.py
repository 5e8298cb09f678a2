"""No evaluation reaches the target.

## What it does
Looks for an evaluation that meets the benchmark's target.

## Why it matters
A run that did not converge has no time to target. One such run of a result may be the slowest, which is not averaged.

## Example
The best of twelve evaluations is 0.337; the target is 0.340.

## Instead
Train longer, or count the run as one that did not converge.

## Source
MLPerf training rules, "Benchmarks": quality targets.
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
        yield from compliance.faults(log, ruleset.round, "target")
