"""The runs of a result were made with different code, packages or interpreters.

## What it does
Compares the digests in `tta_code` and `tta_packages`, and the interpreter in the latter, over the runs of a result.

## Why it matters
A result is of one program. A run with edited code, or with another release of a library, is of another.

## Example
Four runs, then an edit of workloads/translation/model.py, then the fifth.

## Instead
Make all runs again after a change.

## Source
MLPerf submission rules: the runs of a result are made with the same software and hardware.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"
_FACTS = ((keys.TTA_CODE, "digest"), (keys.TTA_PACKAGES, "digest"), (keys.TTA_PACKAGES, "python"))


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    logs = [log for log in result.runs if log.counts and not log.is_foreign]  # an empty log is LOG011's
    for log in logs[1:]:
        for key, name in _FACTS:
            mine, first = log.field(key, name), logs[0].field(key, name)
            if mine != first:
                message = f"the {name} of {key} is {_shown(mine)}; in {logs[0].path.name} it is {_shown(first)}"
                yield Fault(str(log.path), log.line_of(key), message)
                break


def _shown(value: object) -> str:
    return "missing" if value is None else printable(value, 80)
