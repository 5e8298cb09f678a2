"""The runs of a result are not of one benchmark, division, system and batch size.

## What it does
Compares submission_benchmark, submission_division, submission_org, submission_platform and global_batch_size over the
logs.

## Why it matters
A mean over different things is the time of nothing. MLCommons' program compares benchmark and batch size only, and
only in the closed division.

## Example
Nine logs with a global_batch_size of 256, one with 128.

## Instead
Put the runs of each configuration into a result of their own.

## Source
mlperf_logging, rcp_checker (batch sizes and benchmark names); MLPerf submission rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.mlperf import score
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"
_NAMES = (
    "submission_benchmark",
    "submission_division",
    "submission_org",
    "submission_platform",
    "global_batch_size",
)


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None:
        return
    for name, values in score.differing_values(result.runs, _NAMES).items():
        (first, _), (second, log) = list(values.items())[:2]
        message = f"{name} is {printable(second, 60)}, and {printable(first, 60)} in {result.runs[0].path.name}"
        yield Fault(str(log.path), log.line_of(name), message)
