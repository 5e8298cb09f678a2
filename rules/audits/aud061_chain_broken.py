"""A line of the log was changed, moved, removed or inserted after it was written.

## What it does
Reports where the hash chain, the sequence or the monotonic clock of a `tta` log breaks.

## Why it matters
Each line has the digest of the one before it. A break shows that the file is not what the referee wrote, and where.

## Example
The `prev` of line 31 is not the SHA-256 of line 30.

## Instead
Leave the log unchanged. Rewriting all of it makes a new chain: the chain is not a signature.

## Source
The log format of this harness: harness/log/events.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "log"
LIMITS = ()
KINDS = ("chain", "sequence", "backwards", "wall", "unchained")


def check(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    broken = sorted((d for kind in KINDS for d in run.log.defects_of(kind)), key=lambda defect: defect.lineno)
    if broken:
        message = f"{broken[0].message}; {len(broken)} breaks in total"
        yield evidence(run.path, broken[0].lineno, message, 1.0, breaks=len(broken))
