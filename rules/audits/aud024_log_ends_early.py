"""The log ends before the run does.

## What it does
Looks for a run_start that no run_stop follows.

## Why it matters
A log that was cut off is not a run that missed its target: nobody knows what it was. It must not pass as the one run
that a result may lose.

## Example
The last line is an evaluation at half of the samples.

## Instead
Hand in the whole log; a run that crashed is said to have crashed.

## Source
Two v5.1 logs and one v4.0 log without run_stop were accepted as runs that did not converge.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import SignalRule, Trace, trace

SCOPE = "log"
LIMITS = ()


def check(run: RunFacts, rule: SignalRule) -> Iterator[Trace]:
    if run.stop is None and run.log.events:
        last = run.log.events[-1]
        words = "has no run_start" if run.start is None else "has a run_start and no run_stop"
        yield trace(run.path, last.lineno, f"the log {words}; its last line is {last.key}", 0.5)
