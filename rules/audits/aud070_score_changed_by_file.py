"""A control file from the submitter would change how the result is judged.

## What it does
Looks for files that MLPerf's tools obey: scaling factors below one, and parameters that switch checks off.

## Why it matters
Only the leaderboard computes scores. A factor of 0.01 in a submission divided a score by 100 and was accepted.

## Example
scaling.json with 0.01; package_checker_params with seed-checker-bypass.

## Instead
Remove the file; `tta` does not use it.

## Source
Facts of published rounds: four directories of v4.0 contain a bypass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from harness.base.files import small_file
from harness.base.values import finite_number
from harness.checker.audit.facts import Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.errors import SubmissionError

SCOPE = "result"
LIMITS = ()
SCALING = "scaling.json"
BYPASSES = ("package_checker_params", "rcp-bypass", "rcp_bypass", "seed-checker-bypass")


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    for name in subject.result.files:
        last = name.rpartition("/")[2]
        if last in BYPASSES:
            yield evidence(subject.path / name, None, "a file of this name switches off checks of MLPerf's tools", 0.8)
        if last == SCALING and (factor := _factor(subject.path / name)) is not None and factor < 1:
            yield evidence(
                subject.path / name, None, f"the score would be multiplied by {factor:g}", 1.0, factor=factor
            )


def _factor(path: Path) -> float | None:
    try:
        content = json.loads(small_file(path))
    except (SubmissionError, ValueError, RecursionError):
        return None  # an unreadable file changes nothing
    return finite_number(content.get("scaling_factor")) if isinstance(content, dict) else None
