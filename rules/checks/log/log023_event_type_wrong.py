"""The start or end of an interval has the wrong event type.

## What it does
Expects INTERVAL_START on each `..._start` and INTERVAL_END on each `..._stop` of initialisation, run, opening of the
data, blocks and evaluations.

## Why it matters
Other programs pair intervals by their type. A log that says one thing to them and another to `tta` has two readings.

## Example
`run_stop` is a POINT_IN_TIME.

## Instead
Submit the log as it was written.

## Source
MLPerf logging: interval events.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
_STARTS = (
    keys.INIT_START,
    keys.RUN_START,
    keys.TTA_DATA_OPEN_START,
    keys.BLOCK_START,
    keys.EVAL_START,
    keys.TTA_CHECKPOINT_START,
    keys.TTA_RESTORE_START,
)
_STOPS = (
    keys.INIT_STOP,
    keys.RUN_STOP,
    keys.TTA_DATA_OPEN_STOP,
    keys.BLOCK_STOP,
    keys.EVAL_STOP,
    keys.TTA_CHECKPOINT_STOP,
    keys.TTA_RESTORE_STOP,
)
_TYPES = {**dict.fromkeys(_STARTS, "INTERVAL_START"), **dict.fromkeys(_STOPS, "INTERVAL_END")}


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for event in log.events:
        required = _TYPES.get(event.key, event.event_type)
        if event.event_type != required:
            yield Fault(str(log.path), event.lineno, f"{event.key} is a {event.event_type}; it must be an {required}")
