"""The day of submission is impossible.

## What it does
Compares the day that the claim names with the day on which the last run ended, by its wall clock, and with today.

## Why it matters
These days decide who was first with a time. A day before the runs, or in the future, was made up.

## Example
`submitted: 2026-01-01`, and runs of November 2026.

## Instead
`tta submit` writes the day.

## Source
MLPerf submission rules: results are due on a given day.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime

from harness.base.files import line_of
from harness.findings import Fault, Finding
from harness.ruleset.model import RuleSet
from harness.submission.layout import CLAIM_NAME
from harness.submission.result import Result

SCOPE = "judgement"


def check(result: Result, findings: Sequence[Finding], ruleset: RuleSet, today: date) -> Iterator[Fault]:
    submitted = None if result.claim is None else _day_of(result.claim.submitted)
    if submitted is None:
        return  # PKG012 reports a malformed day
    place = result.path / CLAIM_NAME
    if submitted > today:
        yield Fault(str(place), line_of(place, "submitted"), f"submitted on {submitted}; today is {today}")
        return
    ended = [(day, log.path.name) for log in result.runs if log.events and (day := _ended(log.events[-1].time_ms))]
    last = max(ended, default=None)
    if last is not None and submitted < last[0]:
        message = f"submitted on {submitted}; {last[1]} ended on {last[0]}"
        yield Fault(str(place), line_of(place, "submitted"), message)


def _day_of(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _ended(time_ms: float) -> date | None:
    """The UTC day; None for a time outside the calendar."""
    try:
        return datetime.fromtimestamp(time_ms / 1e3, UTC).date()
    except (OverflowError, ValueError, OSError):
        return None
