"""The runs of a result differ in benchmark, division, submitter, system or batch size.

## What it does
Compares `submission_benchmark`, `submission_division`, `submission_org`, `submission_platform` and `global_batch_size`
over the logs. A submitter or platform that is a placeholder (MLP032) is not compared: it names no one else.

## Why it matters
A mean over different things is the time of none of them. MLCommons' program compares only benchmark and batch size, and
only in the closed division.

## Example
Nine logs with a global_batch_size of 256, one with 128.

## Instead
Put the runs of each configuration into a separate result.

## Source
mlperf_logging, rcp_checker (batch sizes and benchmark names); MLPerf submission rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.mlperf import compliance, score
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.mlr._differing import differing

SCOPE = "result"
_NAMES = ("submission_benchmark", "submission_division", "global_batch_size")
_NAMES_OF_SOMEONE = ("submission_org", "submission_platform")


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None:
        return
    yield from differing(result.runs, _NAMES)
    for name in _NAMES_OF_SOMEONE:
        named = [log for log in result.runs if not compliance.is_placeholder(score.last_value(log, name))]
        yield from differing(named, [name])
