"""A claim has an invalid value.

## What it does
Expects the category to be available, preview or research, the day of submission to be a date, the names of submitter,
system and benchmark to be usable as folder names, and the notes to be one printable line of at most 1,000 characters.

## Why it matters
Categories carry obligations; a name with a slash in it is a path; a note with characters that reverse text makes a page
say what no one computed.

## Example
`category: avaliable`, `submitted: yesterday`.

## Instead
`tta submit --category available` writes valid values.

## Source
MLPerf submission rules: available, preview, research.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from harness.base.files import line_of
from harness.errors import printable, unknown_name
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import CLAIM_NAME, NAME_PATTERN
from harness.submission.result import Result

SCOPE = "result"
CATEGORIES = ("available", "preview", "research")
MAX_NOTES = 1_000


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    claim = result.claim
    if claim is None:
        return
    place = result.path / CLAIM_NAME
    if claim.category not in CATEGORIES:
        message = unknown_name("category", claim.category, CATEGORIES)
        yield Fault(str(place), line_of(place, "category"), message)
    if not _is_date(claim.submitted):
        yield Fault(
            str(place),
            line_of(place, "submitted"),
            f"submitted is {printable(claim.submitted, 40)!r}; it must be a date, YYYY-MM-DD",
        )
    if not claim.notes.isprintable() or len(claim.notes) > MAX_NOTES:
        notes = f"the notes are {len(claim.notes):,} characters, {printable(claim.notes, 60)!r}"
        message = f"{notes}; they must be printable and at most {MAX_NOTES:,}"
        yield Fault(str(place), line_of(place, "notes"), message)
    for what, name in (("submitter", claim.submitter), ("system", claim.system), ("benchmark", claim.benchmark)):
        if not NAME_PATTERN.fullmatch(name):
            yield Fault(
                str(place), line_of(place, what), f"the {what} {printable(name, 60)!r} cannot be the name of a folder"
            )


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
