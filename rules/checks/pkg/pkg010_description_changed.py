"""The system description is not the one that was claimed.

## What it does
Compares the SHA-256 of the description's bytes with `system_sha256` of the claim.

## Why it matters
The description is outside the submission's folder and so not covered by the manifest.

## Example
A second submission for the same system brought a different description of the same name.

## Instead
Give a system that was changed a new name.

## Source
The layout: harness/submission/layout.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.files import line_of
from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import CLAIM_NAME
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    claim = result.claim
    if claim is not None and result.system_sha256 is not None and claim.system_sha256 != result.system_sha256:
        place = result.path / CLAIM_NAME
        yield Fault(
            str(place),
            line_of(place, "system_sha256"),
            f"the description has SHA-256 {result.system_sha256[:12]}…; "
            f"the claim says {printable(claim.system_sha256[:12])}…",
        )
