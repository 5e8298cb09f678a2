"""A log of MLPerf's has a clock that MLPerf's logger does not have.

## What it does
Looks for `elapsed_ns` in the metadata of a line: nanoseconds of a monotonic clock, which logs of ours have.

## Why it matters
A round goes by `time_ms`. What else tells times here reads the monotonic clock where there is one: two made-up numbers
in a log, and energy and audit would see another run than the score does.

## Example
`{"key": "run_start", "time_ms": 1755000001000, ..., "metadata": {"elapsed_ns": 0}}`

## Instead
Leave the log as MLPerf's logger wrote it.

## Source
Ours; no published log of a round at hand has such a line. The times of a round: MLPerf training rules, "Timing".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    timed = [event for event in log.events if event.elapsed_ns is not None] if not log.is_foreign else []
    if timed:
        lines = f"{len(timed):,} of {len(log.events):,} lines have it"
        message = f"{timed[0].key} has elapsed_ns, which MLPerf's logger does not write; {lines}"
        yield Fault(str(log.path), timed[0].lineno, message, {"num_lines": len(timed)})
