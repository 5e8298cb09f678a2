"""A log has more or fewer events than its last line counts.

## What it does
Compares `num_events` in `tta_end` with the number of events that were read.

## Why it matters
An evaluation that was removed is still in the count, even if the chain was rebuilt.

## Example
`tta_end` counts 58 events; the log has 55.

## Instead
Submit the log as it was written.

## Source
The order of a run: harness/run/referee.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    counted = log.field(keys.TTA_END, "num_events")
    num_events = sum(log.counts.values())
    if isinstance(counted, int) and counted != num_events:
        yield Fault(
            str(log.path),
            log.line_of(keys.TTA_END),
            f"tta_end counts {counted} events; the log has {num_events}",
            {"counted": counted, "num_events": num_events},
        )
