"""A count in the system description is not a number.

## What it does
Reads `number_of_nodes` and `accelerators_per_node`: each must be a whole number in digits without a leading zero, and
there must be at least one node.

## Why it matters
What the runs used is compared with these counts, and costs are multiplied by them. A word in their place agrees with
anything.

## Example
`"number_of_nodes": "two"`

## Instead
`"number_of_nodes": "2"`, as `tta doctor` writes it.

## Source
MLCommons' system description checker, which only requires that the fields exist and are text.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.files import line_of
from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"
LEAST = {"number_of_nodes": 1, "accelerators_per_node": 0}
_MAX_DIGITS = 6


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.system is None:
        return
    assert result.system_path is not None  # the file it was read from
    for name, least in LEAST.items():
        value = result.system.get(name)
        if not isinstance(value, str) or not value.strip():
            continue  # SYS002 or SYS003 reports it
        is_count = value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS and str(int(value)) == value
        if not is_count or int(value) < least:
            message = f"{name} is {printable(value, 60)!r}; it must be a whole number, at least {least}"
            yield Fault(str(result.system_path), line_of(result.system_path, name), message)
