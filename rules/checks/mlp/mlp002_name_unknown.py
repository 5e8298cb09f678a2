"""The log names a benchmark or a division that the round does not have.

## What it does
Looks up the first `submission_division` and `submission_benchmark` among those of the round, and the benchmark in the
division.

## Why it matters
A log that names no benchmark of the round is not compared with the rules of any benchmark. MLPerf's checker makes a
file name of the value and crashes, or loads the file that the log points it to.

## Example
`submission_benchmark` is "resnet" in round 5.1.0, which has no resnet.

## Instead
Name a benchmark of the round, or check by the round that has it (`--ruleset`).

## Source
MLPerf training rules, "Benchmarks" and "Divisions"; the rule files of MLCommons' compliance checker.
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
        yield from compliance.faults(log, ruleset.round, "name")
