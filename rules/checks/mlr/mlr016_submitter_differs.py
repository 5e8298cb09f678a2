"""The logs name a different submitter from the folder or the system description.

## What it does
Compares `submission_org` of the first log with `submitter` of the system description and with the name of the
submitter's folder. Only letters and digits count, case is ignored, and one may be part of the other.

## Why it matters
A log of another submitter is worth a look: one may run on another's machine and say so, or have taken another's log.

## Example
`submission_org` is SUBMISSION_ORG_PLACEHOLDER, or the manufacturer of the machine.

## Instead
Set the name of the submitter before the runs.

## Source
mlperf_logging requires a submission_org that is not empty, and compares it with nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import layout
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None or result.kind == "log":
        return
    org = result.runs[0].value("submission_org") if result.runs else None
    places = {"the system description": (result.system or {}).get("submitter")}
    if layout.is_result_place(result.path):
        places["the folder"] = result.path.absolute().parents[2].name
    for place, name in places.items():
        if isinstance(org, str) and isinstance(name, str) and not _is_like(org, name):
            message = f"submission_org is {printable(org, 60)!r}; {place} has {printable(name, 60)!r}"
            yield Fault(str(result.runs[0].path), result.runs[0].line_of("submission_org"), message)
            return


def _is_like(one: str, other: str) -> bool:
    one, other = ("".join(letter for letter in name.lower() if letter.isalnum()) for name in (one, other))
    return bool(one) and bool(other) and (one in other or other in one)
