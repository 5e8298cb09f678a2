"""A line of the log was changed, moved, taken out or put in after it was written.

## What it does
Reports where the hash chain, the sequence or the monotonic clock of a log of ours breaks.

## Why it matters
Each line has the digest of the one before. A break says that the file is not what the referee wrote, and where.

## Example
Line 31 has another `prev` than the SHA-256 of line 30.

## Instead
Leave the log as it is. Who rewrites all of it makes a new chain: the chain is no signature.

## Source
The log format of this harness.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunFacts
from harness.checker.audit.signals import SignalRule, Trace, trace

SCOPE = "log"
LIMITS = ()
KINDS = ("chain", "sequence", "backwards", "wall", "unchained")


def check(run: RunFacts, rule: SignalRule) -> Iterator[Trace]:
    broken = sorted((d for kind in KINDS for d in run.log.defects_of(kind)), key=lambda defect: defect.lineno)
    if broken:
        message = f"{broken[0].message}; {len(broken)} breaks in all"
        yield trace(run.path, broken[0].lineno, message, 1.0, breaks=len(broken))
