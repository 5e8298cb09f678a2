"""A block of training has no statistics, or statistics have no block.

## What it does
Expects one `tracked_stats` after every block, before anything else begins. The last block of an aborted run may have
none.

## Why it matters
A block's wait for data is reported there and nowhere else: without it, the wait counts as training. Statistics that
belong to no block are not compared with anything.

## Example
Ten blocks, and statistics only for the one that waited least.

## Instead
Submit the log as it was written: the referee writes statistics after every block.

## Source
The referee: harness/run/referee.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.events import Event
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"
_ENDS = (keys.BLOCK_START, keys.EVAL_START, keys.RUN_STOP)


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    waiting: Event | None = None
    for event in log.events:
        if event.key == keys.BLOCK_STOP:
            waiting = event
        elif event.key == keys.TRACKED_STATS:
            if waiting is None:
                yield Fault(str(log.path), event.lineno, "tracked_stats without a block right before it")
                return
            waiting = None
        elif event.key in _ENDS and waiting is not None:
            if event.key != keys.RUN_STOP or timeline.status(log) == timeline.SUCCESS:
                yield Fault(str(log.path), waiting.lineno, "the block that ends here has no tracked_stats")
                return
            waiting = None
