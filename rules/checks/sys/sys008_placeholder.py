"""A system description has placeholders instead of facts.

## What it does
Reports fields that say "unknown", "unnamed", "TODO", "TBD", "PLACEHOLDER" or the like.

## Why it matters
`tta doctor` writes "unknown" for what it could not detect; a person who knows the machine must fill it in.

## Example
`cooling` is "unknown".

## Instead
Fill the fields in.

## Source
MLPerf submission rules: a meaningful response is required. Published logs have SUBMISSION_ORG_PLACEHOLDER.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.base.files import line_of
from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import system as system_fields
from harness.submission.result import Result

SCOPE = "result"
_WORDS = re.compile(r"(?i)unknown|unnamed|todo|tbd|fixme|xxx+|\?+|.*placeholder.*|<.*>")


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.system is None:
        return
    assert result.system_path is not None  # the file it was read from
    names = [
        name
        for name in system_fields.FIELDS
        if isinstance(value := result.system.get(name), str) and _WORDS.fullmatch(value.strip())
    ]
    if names:
        yield Fault(
            str(result.system_path),
            line_of(result.system_path, names[0]),
            f"placeholders in {len(names)} of {len(system_fields.FIELDS)} fields: {printable(', '.join(names))}",
            {"fields": names},
        )
