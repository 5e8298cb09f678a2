"""An interval's end is marked as something else.

## What it does
Expects INTERVAL_START on each `..._start` and INTERVAL_END on each `..._stop` of initialisation, run, opening of
the data, blocks and evaluations.

## Why it matters
Other programs pair intervals by the type; a log that says one thing to them and another to us has two readings.

## Example
`run_stop` is a POINT_IN_TIME.

## Instead
Hand in the log as it was written.

## Source
MLPerf logging: interval events.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import events as key
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
_STARTS = (key.INIT_START, key.RUN_START, key.TTA_DATA_OPEN_START, key.BLOCK_START, key.EVAL_START)
_STOPS = (key.INIT_STOP, key.RUN_STOP, key.TTA_DATA_OPEN_STOP, key.BLOCK_STOP, key.EVAL_STOP)
_TYPES = {**dict.fromkeys(_STARTS, "INTERVAL_START"), **dict.fromkeys(_STOPS, "INTERVAL_END")}


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for event in log.events:
        wanted = _TYPES.get(event.key, event.event_type)
        if event.event_type != wanted:
            yield Fault(str(log.path), event.lineno, f"{event.key} is a {event.event_type}; it must be an {wanted}")
