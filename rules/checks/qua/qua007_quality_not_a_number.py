"""A quality is not a finite number.

## What it does
Expects the value of every `eval_accuracy` to be a finite number.

## Why it matters
What cannot be compared with a target must not be read as having reached it.

## Example
`eval_accuracy` is "0.95" (text) or true.

## Instead
Return a finite number from `evaluate()`. The referee ends a run whose quality is not finite as diverged.

## Source
The run: harness/run/referee.py. Text as an accuracy makes MLPerf's checker fail with an exception.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import finite_number
from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for event in log.all(keys.EVAL_ACCURACY):
        if finite_number(event.value) is None:
            yield Fault(
                str(log.path),
                event.lineno,
                f"the quality is {printable(event.value, 40)!r}; it must be a finite number",
            )
