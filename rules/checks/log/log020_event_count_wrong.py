"""A log has more or fewer events than its last line counts.

## What it does
Compares `num_events` in `tta_end` with the events that were read.

## Why it matters
An evaluation that was taken out, with the chain made anew, still is in the count.

## Example
`tta_end` counts 58 events; the log has 55.

## Instead
Hand in the log as it was written.

## Source
The order of a run: harness/run/referee.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import events as key
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    counted = log.field(key.TTA_END, "num_events")
    num_events = sum(log.counts.values())
    if isinstance(counted, int) and counted != num_events:
        yield Fault(
            str(log.path),
            log.line_of(key.TTA_END),
            f"tta_end counts {counted} events; the log has {num_events}",
            {"counted": counted, "num_events": num_events},
        )
