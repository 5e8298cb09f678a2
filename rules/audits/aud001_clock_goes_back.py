"""The wall clock goes back during a run.

## What it does
Compares the times of neighbouring lines of one process (start and stop of initialisation, run, blocks, epochs and
evaluations). If every rank writes its own initialisation, only the first counts. Of a run that is evaluated from
checkpoints afterwards, by programs of their own, only the lines of training are compared.

## Why it matters
The lines of one process are in the order in which they happened. If the time goes back, the clock was set or a line was
moved.

## Example
block_stop at 12:10:00, followed in the file by eval_start at 12:03:00.

## Instead
Log from one process with one clock, and do not set any clock during a run.

## Source
Facts of published rounds: evaluation and block lines can be shuffled without MLPerf's checker noticing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys
from harness.log.events import Event

SCOPE = "log"
LIMITS = ("max_back_s",)
OF_CHECKPOINTS = (keys.EVAL_START, keys.EVAL_STOP, keys.RUN_STOP)


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    course = [event for event in run.course if _is_of_one_process(event, run)]
    steps = [(after, (before.time_ms - after.time_ms) / 1e3) for before, after in itertools.pairwise(course)]
    back = [(event, back_s) for event, back_s in steps if back_s > rule["max_back_s"]]
    if back:
        event, back_s = max(back, key=lambda pair: pair[1])
        yield evidence(
            run.path,
            event.lineno,
            f"at {event.key} the clock goes back by {back_s:.3f} s, and {len(back)} times in total; up to "
            f"{rule['max_back_s']:g} s is usual",
            back_s / (back_s + 60),
            back_s=back_s,
            times=len(back),
        )


def _is_of_one_process(event: Event, run: RunFacts) -> bool:
    if event.key in (keys.INIT_START, keys.INIT_STOP):
        return event is run.log.first(event.key)
    return not (run.is_evaluated_afterwards and event.key in OF_CHECKPOINTS)
