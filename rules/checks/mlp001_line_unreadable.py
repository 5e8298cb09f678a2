"""A line with MLPerf's token is no event.

## What it does
Takes what the reader could not read: no JSON, a field of an event that is missing or of the wrong type, a name that
stands twice in a line, a number that is none, a line of more than a megabyte, more lines than a run has.

## Why it matters
A line that cannot be read may be the one that decides. MLPerf's checker refuses some of these, crashes on others, and
reads the rest in a way of its own.

## Example
`:::MLLOG {"key": "run_start", "time_s": 12.5}`: no `time_ms`, no `value`, no `metadata`.

## Instead
Log with MLPerf's `mllog` module, or with `tta run`.

## Source
The line format of MLPerf's `mllog`; 15 logs of round 0.7, on which MLCommons' checker ends with an exception.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runlog import RunLog

SCOPE = "log"
KINDS = ("malformed", "overlong", "too_many")


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for kind in KINDS:
        defects = log.defects_of(kind)
        if defects:
            more = f", and {len(defects) - 1:,} more such lines" if len(defects) > 1 else ""
            yield Fault(str(log.path), defects[0].lineno, f"{defects[0].message}{more}", {"num_lines": len(defects)})
