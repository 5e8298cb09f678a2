"""A block or an evaluation has no start or no end.

## What it does
Expects each `block_start` to be followed by its `block_stop`, each `eval_start` by its `eval_stop`, and likewise each
checkpoint and each way back to one, before another of them begins. In a run that was aborted, the interval in which it
broke off may be open.

## Why it matters
Time is assigned to phases by these pairs. A pair that is incomplete, overlaps or nests moves seconds from one phase to
another.

## Example
`block_start` on line 30, `eval_start` on line 31, `block_stop` on line 32.

## Instead
Submit the log as it was written.

## Source
MLPerf logging: "all intervals started must be ended", which its checkers stopped enforcing after round 0.6.
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
_STARTS = {
    keys.BLOCK_START: keys.BLOCK_STOP,
    keys.EVAL_START: keys.EVAL_STOP,
    keys.TTA_CHECKPOINT_START: keys.TTA_CHECKPOINT_STOP,
    keys.TTA_RESTORE_START: keys.TTA_RESTORE_STOP,
}
_STOPS = frozenset(_STARTS.values())


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    opened: Event | None = None
    for event in log.events:
        if event.key in _STARTS:
            if opened is not None:
                yield Fault(str(log.path), opened.lineno, f"{opened.key} has no {_STARTS[opened.key]}")
            opened = event
        elif event.key in _STOPS:
            if opened is None or _STARTS[opened.key] != event.key:
                yield Fault(str(log.path), event.lineno, f"{event.key} without a matching start")
            else:
                opened = None
    if opened is not None and timeline.status(log) == timeline.SUCCESS:
        yield Fault(str(log.path), opened.lineno, f"{opened.key} has no {_STARTS[opened.key]} in a finished run")
