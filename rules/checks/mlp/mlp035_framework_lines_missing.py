"""The log has no lines but MLPerf's.

## What it does
Counts the lines of other programs.

## Why it matters
A framework prints warnings, versions and steps. An auditor compares MLPerf's lines with that output, and a forger has
to forge it too.

## Example
The output of the framework was filtered out of the file.

## Instead
Submit the output of the run unchanged.

## Source
Not a rule of MLCommons' compliance checker, which passes a log changed in this way; see
docs/reports/mlperf-agreement.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
UNCOUNTED = ("malformed", "overlong", "cut_off")  # lines that are not events


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    num_damaged = sum(log.defect_counts.get(kind, 0) for kind in UNCOUNTED)
    num_other = log.num_lines - sum(log.counts.values()) - num_damaged
    if num_other <= 0:
        yield Fault(
            str(log.path), None, f"all {log.num_lines:,} lines are MLPerf's: what the framework printed is missing"
        )
