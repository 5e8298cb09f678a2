"""Lines of the log cannot be read, and no signal has looked at them.

## What it does
Counts the lines with the log's token that are no events: no JSON, no time, too long, cut off.

## Why it matters
What nobody can read nobody has audited. A sound program writes no such line; an editor does.

## Example
Three of 120 lines end in the middle of a number.

## Instead
Hand in the log as it was written.

## Source
The reader's defects; 15 published v0.7 logs have `time_s` in place of `time_ms` and crash MLPerf's checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.auditing.facts import RunFacts
from harness.auditing.suspicion import SignalRule, Trace, trace

SCOPE = "log"
LIMITS = ()
KINDS = ("malformed", "overlong", "cut_off", "too_many")


def check(run: RunFacts, rule: SignalRule) -> Iterator[Trace]:
    unread = [defect for kind in KINDS for defect in run.log.defects_of(kind)]
    if unread:
        first = min(unread, key=lambda defect: defect.lineno)
        share = len(unread) / (len(unread) + len(run.log.events))
        message = f"{len(unread)} lines cannot be read, beside {len(run.log.events)} that can; {first.message}"
        yield trace(run.path, first.lineno, message, share, lines=len(unread))
