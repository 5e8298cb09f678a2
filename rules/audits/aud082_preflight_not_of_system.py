"""The preflight in the system description is none, or not one of the machine that is described.

## What it does
Reads `tta_preflight`, where a description has it: devices, threads, time, rates, warnings and digest must be there and
possible. It must be of no more devices than the description has accelerators per node, and have operations of an
accelerator if and only if there is one.

## Why it matters
A preflight explains a result by the machine. One that was typed, or copied from another machine, explains another one.

## Example
A preflight without a copy from host to device, in the description of a system with eight accelerators.

## Instead
`tta preflight --system system.json --out FOLDER` on the machine of the runs, and `tta run --system FOLDER/system.json`.

## Source
harness/submission/preflight.py reads what `tta preflight` writes; no other check looks at it.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.submission.preflight import carried

SCOPE = "result"
LIMITS = ()


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    try:
        carried(subject.result.system)
    except ValueError as error:
        place = subject.result.system_path or subject.path
        yield evidence(place, None, f"the preflight in the system description: {error}", 1.0)
