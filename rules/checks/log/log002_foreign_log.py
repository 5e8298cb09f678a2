"""A log was not written by this harness.

## What it does
Looks for monotonic time (`elapsed_ns`) on the lines of the log. If no line has it, this is the only finding on the log.

## Why it matters
Wall clocks are set and stepped. Without monotonic time, sequence numbers and a hash chain, nothing in the log can be
verified. One clear finding is worth more than thirty about keys that another program never writes.

## Example
A log of MLPerf's own `mllog` module: the same line format, but wall-clock timestamps only.

## Instead
Run with `tta run`; or judge an MLPerf log by the ruleset of its round (`--ruleset`), if there is one.

## Source
The line format: harness/log/events.py. Logs with edited timestamps pass MLPerf's checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if log.is_foreign:
        yield Fault(
            str(log.path),
            log.events[0].lineno,
            "no line has monotonic time (metadata.elapsed_ns): another program wrote this log, "
            f"and ruleset {ruleset.version} cannot judge it",
            {"num_events": len(log.events)},
        )
