"""The runs of a result were refereed by different versions of the harness.

## What it does
Compares `harness` in `tta_format` over the runs of a result.

## Why it matters
Versions may differ in what they do between the events. This does not break a rule, but a reader should know.

## Example
Four runs by 0.1.0, and one added by 0.2.0.

## Instead
Complete a result with the version that began it.

## Source
MLPerf training rules, "System and framework must be consistent".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    stated = [
        (log, version) for log in result.runs if isinstance(version := log.field(keys.TTA_FORMAT, "harness"), str)
    ]
    for log, version in stated:
        if version != stated[0][1]:
            yield Fault(
                str(log.path),
                log.line_of(keys.TTA_FORMAT),
                f"the referee's version was {printable(version, 20)}; in {stated[0][0].path.name} "
                f"it was {printable(stated[0][1], 20)}",
            )
