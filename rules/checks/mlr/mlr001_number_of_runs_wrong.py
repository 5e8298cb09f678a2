"""The result of an MLPerf round does not have the required number of logs.

## What it does
Counts the files result_<anything>.txt in the result's folder, including those that cannot be read.

## Why it matters
With fewer runs luck decides; with more the submitter has chosen. The number is exact.

## Example
retinanet, round 5.1: four logs, or six; there must be 5.

## Instead
Submit the runs that the round requires, in the order in which they were made.

## Source
MLPerf training rules, "Benchmark Results"; mlperf_logging, benchmark_meta and package_checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import layout
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None or result.kind == "log":
        return
    benchmark = ruleset.round.benchmark(result.benchmark)
    found = layout.log_names(result.files)
    if not found:  # no log names a benchmark, so no other check has anything to look at
        yield Fault(str(result.path), None, "the result has no log of a run")
    elif benchmark is not None and len(found) != benchmark.num_runs:
        message = f"the result has {len(found)} logs of runs; {benchmark.name} must have {benchmark.num_runs}"
        yield Fault(str(result.path), None, message, {"found": len(found), "allowed": benchmark.num_runs})
