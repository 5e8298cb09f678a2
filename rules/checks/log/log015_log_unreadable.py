"""A log of a result cannot be read at all.

## What it does
Reports files named `result_<k>.txt` that are empty, have no line of a `tta` log, or cannot be opened.

## Why it matters
A run that cannot be read must not be mistaken for a run that does not exist.

## Example
`result_3.txt` has 0 bytes.

## Instead
Delete it and run again with `tta run --resume`; or copy it again from where it was written.

## Source
MLPerf's package checker counts any unreadable log as the one run that may miss its target.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import RESULT_PATTERN
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for part in result.unreadable:
        if RESULT_PATTERN.fullmatch(part.path.name):
            yield Fault(str(part.path), None, f"the log cannot be read: {printable(part.message)}")
