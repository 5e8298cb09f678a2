"""The numbers of the runs have a gap.

## What it does
Expects `result_0.txt`, `result_1.txt` and so on without a gap.

## Why it matters
A missing number is a run that was removed.

## Example
`result_0.txt`, `result_1.txt`, `result_3.txt`.

## Instead
Submit every run; `tta run --resume` makes the missing one.

## Source
The layout: harness/submission/layout.py.
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
    if result.kind == "log":
        return
    names = [log.path.name for log in result.runs] + [part.path.name for part in result.unreadable]
    numbers = {int(match.group(1)) for name in names if (match := RESULT_PATTERN.fullmatch(name))}
    holes = sorted(set(range(max(numbers))) - numbers) if numbers else []
    if holes:
        shown = printable(", ".join(f"result_{number}.txt" for number in holes))
        yield Fault(str(result.path), None, f"missing: {shown}; runs are numbered from 0 without a gap")
