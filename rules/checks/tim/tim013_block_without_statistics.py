"""A block of training has no statistics, or statistics have no block.

## What it does
Expects one `tracked_stats` after every block, before anything else begins. The last block of a run that was aborted
may have none.

## Why it matters
What a block waited for data is told there and nowhere else: without it the wait counts as training. Statistics that
belong to no block are compared with none.

## Example
Ten blocks, and the statistics of the one that waited least.

## Instead
Hand in the log as it was written: the referee writes one after every block.

## Source
The referee: harness/run/referee.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import events as key
from harness.log.events import Event
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"
_ENDS = (key.BLOCK_START, key.EVAL_START, key.RUN_STOP)


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    waiting: Event | None = None
    for event in log.events:
        if event.key == key.BLOCK_STOP:
            waiting = event
        elif event.key == key.TRACKED_STATS:
            if waiting is None:
                yield Fault(str(log.path), event.lineno, "tracked_stats without a block right before it")
                return
            waiting = None
        elif event.key in _ENDS and waiting is not None:
            if event.key != key.RUN_STOP or timeline.status(log) == timeline.SUCCESS:
                yield Fault(str(log.path), waiting.lineno, "the block that ends here has no tracked_stats")
                return
            waiting = None
