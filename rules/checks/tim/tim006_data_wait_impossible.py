"""A block waited longer for data than it lasted.

## What it does
Compares `data_wait_s` in `tracked_stats` with the block before it: at least 0 and at most the duration of the block.

## Why it matters
The wait comes from the training process, the duration of the block from the referee. An impossible wait means that a
clock or the wait was edited.

## Example
A block of 0.2 s claims to have waited 0.5 s for data.

## Instead
Let the session measure its waiting with a monotonic clock, in seconds.

## Source
The ledger: harness/run/referee.py, which ends a run that reports such a wait.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import finite_number
from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for event, start, stop in timeline.block_stats(log):
        waited_s = finite_number(event.value.get("data_wait_s")) if isinstance(event.value, dict) else None
        if waited_s is None:
            continue
        block_s = log.seconds(start, stop)
        # The referee's own time is in nanoseconds; the worker's wait is a binary fraction of seconds.
        if waited_s < 0 or waited_s > block_s + 1e-6:
            yield Fault(
                str(log.path),
                event.lineno,
                f"data_wait_s is {waited_s:.3f} s in a block of {block_s:.3f} s",
                {"data_wait_s": waited_s, "block_s": block_s},
            )
