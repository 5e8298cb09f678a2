"""Lines of the log cannot be read, so no signal looked at them.

## What it does
Counts the lines with the log's token that are not events: invalid JSON, no time, too long, cut off.

## Why it matters
What cannot be read was not audited. A working program writes no such line; an editor does.

## Example
Three of 120 lines end in the middle of a number.

## Instead
Submit the log as it was written.

## Source
The defects that the reader reports. 15 published v0.7 logs have `time_s` instead of `time_ms` and crash MLPerf's
checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log.run_log import UNREAD

SCOPE = "log"
LIMITS = ()


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    num_unread, num_read = run.log.num_unread, len(run.log.events)
    if num_unread:
        first = min((one for kind in UNREAD for one in run.log.defects_of(kind)), key=lambda defect: defect.lineno)
        lines = "1 line" if num_unread == 1 else f"{num_unread:,} lines"
        message = f"{lines} cannot be read, next to {num_read:,} that can; {first.message}"
        yield evidence(run.path, first.lineno, message, num_unread / (num_unread + num_read), lines=num_unread)
