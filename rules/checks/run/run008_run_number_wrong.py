"""A log lies under another number than it was written with.

## What it does
Compares `index` in `tta_format` with the number in the file's name.

## Why it matters
The runs of a result have an order, that of time. A log that was moved was chosen, or its place was given to another.

## Example
result_0.txt says that it is run 3.

## Instead
Leave the names as `tta run` gives them.

## Source
The layout: harness/submission/result.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import events as key
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for log in result.runs:
        index, number = log.field(key.TTA_FORMAT, "index"), result.run_number(log)
        if isinstance(index, int) and number is not None and index != number and result.kind != "log":
            yield Fault(
                str(log.path), log.line_of(key.TTA_FORMAT), f"the log says that it is run {index}, not run {number}"
            )
