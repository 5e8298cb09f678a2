"""A line starts like a log line but cannot be read.

## What it does
Reports each line with `:::MLLOG` that is not a single JSON object with time, type, key, value and metadata, each of the
right type, with no duplicate names and no NaN or infinity.

## Why it matters
What cannot be read cannot be judged: a checker that skips such a line can be made blind to any event.

## Example
`:::MLLOG {"time_ms": 1763683200123, "key": "seed", "value": NaN}`

## Instead
Keep logs byte for byte as the referee wrote them; do not pass them through an editor or a log collector.

## Source
The line format: harness/log/events.py. MLPerf's parser fails with a KeyError on 15 published v0.7 logs.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for defect in log.defects_of("malformed"):
        yield Fault(str(log.path), defect.lineno, f"the line cannot be read: {defect.message}")
