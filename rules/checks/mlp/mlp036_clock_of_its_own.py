"""An MLPerf log has a clock that MLPerf's logger does not write.

## What it does
Looks for `elapsed_ns` in the metadata of a line: nanoseconds of a monotonic clock, as `tta` logs have.

## Why it matters
A round is timed by `time_ms`. Other readers of times in `tta` use the monotonic clock if there is one: with two made-up
numbers in a log, energy and audit would see a different run from the one that is scored.

## Example
`{"key": "run_start", "time_ms": 1755000001000, ..., "metadata": {"elapsed_ns": 0}}`

## Instead
Leave the log as MLPerf's logger wrote it.

## Source
A rule of `tta`; no published log that was examined has such a line. The times of a round: MLPerf training rules,
"Timing".
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
