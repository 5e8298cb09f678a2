"""A required field of the system description is empty.

## What it does
Reports fields that are empty or white space. Notes may be empty, and so may fields about accelerators on a machine that
has none.

## Why it matters
Empty fields pass for a description and describe nothing.

## Example
`host_processor_model_name` is "".

## Instead
Fill the field in; write "none" where there is no such thing.

## Source
MLPerf submission rules: a meaningful response is required. MLPerf's checker passes a description of empty strings.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.files import line_of
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import system as system_fields
from harness.submission.result import Result

SCOPE = "result"
_NOTES = ("hw_notes", "sw_notes")


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.system is None:
        return
    assert result.system_path is not None  # the file it was read from
    has_no_accelerators = result.system.get("accelerators_per_node") == "0"
    for name in system_fields.FIELDS:
        value = result.system.get(name)
        if not isinstance(value, str) or value.strip() or name in _NOTES:
            continue
        if has_no_accelerators and name.startswith("accelerator"):
            continue
        yield Fault(str(result.system_path), line_of(result.system_path, name), f"the field {name!r} is empty")
