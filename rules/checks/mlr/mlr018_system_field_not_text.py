"""A field of the system description is not text.

## What it does
Looks for fields of MLPerf's system description whose value is a number, a list, an object, true, false or null.

## Why it matters
All fields are text; MLCommons' checker fails with an exception on some that are not, and accepts others.

## Example
`"accelerators_per_node": 8` instead of `"8"`.

## Instead
Put the value in quotes.

## Source
mlperf_logging, system_desc_checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.files import line_of
from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import system
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None or result.system is None:
        return
    assert result.system_path is not None
    for name in system.FIELDS:
        if name in result.system and not isinstance(result.system[name], str):
            message = f"the field {name!r} is {printable(result.system[name], 60)}; it must be text"
            yield Fault(str(result.system_path), line_of(result.system_path, name), message)
