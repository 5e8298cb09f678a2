"""A name is a placeholder.

## What it does
Compares `submission_org` and `submission_platform` with words that templates use.

## Why it matters
No one answers for a log whose submitter is called PLACEHOLDER.

## Example
`submission_org` is "SUBMISSION_ORG_PLACEHOLDER".

## Instead
Set the names before the run.

## Source
Not a rule of MLCommons' compliance checker, which passes a log changed in this way; see
docs/reports/mlperf-agreement.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for name in (keys.SUBMISSION_ORG, keys.SUBMISSION_PLATFORM):
        line = log.first(name)
        if line is None:
            continue
        if compliance.is_placeholder(line.value):
            yield Fault(str(log.path), line.lineno, f"{name} is {printable(line.value, 60)!r}, a placeholder")
