"""A log names a benchmark that the ruleset does not have.

## What it does
Looks up `submission_benchmark` among the benchmarks of the ruleset.

## Why it matters
Without rules there is no target, cadence or limit to check; a log must not pass because nothing was there to check it
against.

## Example
`submission_benchmark` is "image_clasification_mini".

## Instead
Name the benchmark as the rules do, `<workload>_<suite>`; or judge the log by the ruleset that has it (`--ruleset`).

## Source
The ruleset's files, one per workload. MLPerf's package checker skips an unknown benchmark with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import unknown_name
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    event = log.first(keys.SUBMISSION_BENCHMARK)
    if event is not None and rules is None:
        name = unknown_name("benchmark", str(event.value), ruleset.benchmarks)
        yield Fault(str(log.path), event.lineno, f"{name} (ruleset {ruleset.version}); the log cannot be judged")
