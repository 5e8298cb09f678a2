"""A log is filed under a different number from the one it was written with.

## What it does
Compares `index` in `tta_format` with the number in the name of the file.

## Why it matters
The runs of a result are in order of time. A log that was moved was chosen, or its place was given to another.

## Example
`result_0.txt` says that it is run 3.

## Instead
Keep the names that `tta run` gives.

## Source
The layout: harness/submission/layout.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for log in result.runs:
        index, number = log.field(keys.TTA_FORMAT, "index"), result.run_number(log)
        if isinstance(index, int) and number is not None and index != number and result.kind != "log":
            yield Fault(
                str(log.path), log.line_of(keys.TTA_FORMAT), f"the log says that it is run {index}, not run {number}"
            )
