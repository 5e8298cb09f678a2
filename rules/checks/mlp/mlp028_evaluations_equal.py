"""All evaluations have the same value.

## What it does
Compares the values of all evaluations of a log that has at least three.

## Why it matters
A network that learns does not measure the same to the last digit three times, from the first evaluation on.

## Example
Every evaluation loss is 0.01.

## Instead
Log what was measured.

## Source
Not a rule of MLCommons' compliance checker, which passes a log changed in this way; see
docs/reports/mlperf-agreement.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.events import canonical_json
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
MIN_EVALUATIONS = 3


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    lines = [line for line in log.all(keys.EVAL_ACCURACY) if "metric" not in line.metadata]
    stated = set(compliance.progress_of_each(lines))
    if len(stated) >= MIN_EVALUATIONS and all(line.value == lines[0].value for line in lines):
        message = f"all {len(lines)} evaluations have the value {printable(canonical_json(lines[0].value), 60)}"
        yield Fault(str(log.path), lines[0].lineno, message)
