"""The claimed category is better than the status of the system.

## What it does
Compares the claim's category with the description's `status`: available requires a system that is available, on
premises or in a cloud; preview one that is available or a preview; research allows any.

## Why it matters
A reader of "available" expects to be able to buy or rent the machine.

## Example
`category: available` for a system whose status is "Research, Development, or Internal (RDI)".

## Instead
Use `tta submit` without --category, which follows the status; or claim a lower category.

## Source
MLPerf submission rules: available, preview, research, and what each requires.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.files import line_of
from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import CLAIM_NAME
from harness.submission.result import Result
from harness.submission.system import STATUSES

SCOPE = "result"
_CATEGORIES = ("available", "preview", "research")  # from the most to the least demanding
_BEST = {"onprem": "available", "cloud": "available", "preview": "preview", "rdi": "research"}


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    claim, status = result.claim, (result.system or {}).get("status")
    if claim is None or claim.category not in _CATEGORIES or not isinstance(status, str):
        return
    short = {words.lower(): name for name, words in STATUSES.items()}
    best = _BEST.get(short.get(status.strip().lower(), status.strip().lower()), "research")
    if _CATEGORIES.index(claim.category) < _CATEGORIES.index(best):
        place = result.path / CLAIM_NAME
        yield Fault(
            str(place),
            line_of(place, "category"),
            f"the category is {claim.category}; by its status, {printable(status, 80)!r}, the system is at best {best}",
        )
