"""A system description lacks a field, or has one that is not text.

## What it does
Expects MLPerf's 33 fields, each of them text that can be printed on one line.

## Why it matters
Readers compare machines by these fields.

## Example
No `accelerator_model_name`; `number_of_nodes` is 1 instead of "1"; a name with a character that reverses the letters
after it.

## Instead
`tta doctor --out FILE` writes all of them; fill in what it could not detect.

## Source
MLPerf submission rules, system description; mlperf_logging, system_desc_checker, which fails with an exception on a
number.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.files import line_of
from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import system as system_fields
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.system is None:
        return
    assert result.system_path is not None  # the file it was read from
    for name in system_fields.FIELDS:
        if name not in result.system:
            yield Fault(str(result.system_path), None, f"the field {name!r} is missing")
        elif not isinstance(value := result.system[name], str) or not value.isprintable():
            yield Fault(
                str(result.system_path),
                line_of(result.system_path, name),
                f"the field {name!r} is {printable(value, 60)}; it must be printable text",
            )
