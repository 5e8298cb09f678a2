"""The log ends before the run does.

## What it does
Looks for a run_start that is not followed by a run_stop.

## Why it matters
A log that was cut off is not a run that missed its target: its outcome is unknown. It must not pass as the one run that
a result may lose.

## Example
The last line is an evaluation after half of the samples.

## Instead
Submit the whole log; if a run crashed, say so.

## Source
Two v5.1 logs and one v4.0 log without run_stop were accepted as runs that did not converge.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
LIMITS = ()


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    if run.stop is None and run.log.events:
        last = run.log.events[-1]
        words = "has no run_start" if run.start is None else "has a run_start but no run_stop"
        yield evidence(run.path, last.lineno, f"the log {words}; its last line is {last.key}", 0.5)
