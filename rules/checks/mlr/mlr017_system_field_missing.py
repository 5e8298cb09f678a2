"""The system description lacks a field.

## What it does
Looks for the 33 fields of MLPerf's system description, from round 1.0 on.

## Why it matters
A result is of a system; what is not stated about it cannot be compared or bought.

## Example
There is no `accelerator_memory_capacity`.

## Instead
Write every field; `N/A` where there is no such thing.

## Source
MLPerf submission rules; mlperf_logging, system_desc_checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import system
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None or result.system is None:
        return
    assert result.system_path is not None
    if absent := [name for name in system.FIELDS if name not in result.system]:
        message = f"{len(absent)} of {len(system.FIELDS)} fields are missing: {', '.join(absent)}"
        yield Fault(str(result.system_path), None, message, {"missing": absent})
