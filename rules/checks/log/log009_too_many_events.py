"""A log has more events than a run can have.

## What it does
Reports a log with more than 10,000 events of one key (100,000 power readings), more than 1,000 different keys, or more
than 64 MiB of events. Events beyond these limits are not kept.

## Why it matters
Events that were not kept were not judged.

## Example
A log with 200,000 `block_start` lines.

## Instead
Evaluate at the ruleset's cadence; a run has a few dozen evaluations. Statistics (`tracked_stats`) may be many.

## Source
The reader's limits: harness/log/run_log.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for defect in log.defects_of("too_many"):
        yield Fault(str(log.path), defect.lineno, f"{defect.message}; the events beyond that were not judged")
