"""A system description has placeholders where facts should be.

## What it does
Reports fields that say "unknown", "unnamed", "TODO", "TBD", "PLACEHOLDER" or the like.

## Why it matters
`tta doctor` writes "unknown" where it could not see; a person who knows the machine must say it.

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

from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import system as system_fields
from harness.submission.result import Result, line_of

SCOPE = "result"
_WORDS = re.compile(r"(?i)unknown|unnamed|todo|tbd|fixme|xxx+|\?+|.*placeholder.*|<.*>")


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.system is None:
        return
    assert result.system_path is not None  # from which it was read
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
