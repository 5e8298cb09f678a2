"""A line with MLPerf's token is not a readable event.

## What it does
Reports what the reader could not read: invalid JSON, a field of an event that is missing or of the wrong type, a
duplicate name in a line, an invalid number, a line that ends with a lone carriage return, a line of more than a
megabyte, a last line that is cut off, more lines than a run has.

## Why it matters
A line that cannot be read may be the one that decides. MLPerf's checker refuses some of these, crashes on others, and
reads the rest in its own way.

## Example
`:::MLLOG {"key": "run_start", "time_s": 12.5}`: no `time_ms`, no `value`, no `metadata`.

## Instead
Log with MLPerf's `mllog` module, or with `tta run`.

## Source
The line format of MLPerf's `mllog`. MLCommons' checker fails with an exception on 15 logs of round 0.7.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import UNREAD, RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for kind in UNREAD:
        if num_lines := log.defect_counts.get(kind, 0):
            first = log.defects_of(kind)[0]
            more = "" if num_lines == 1 else f", and {num_lines - 1:,} more such line{'s' if num_lines > 2 else ''}"
            message = f"{first.message}{more}; such lines are not judged"
            yield Fault(str(log.path), first.lineno, message, {"num_lines": num_lines})
