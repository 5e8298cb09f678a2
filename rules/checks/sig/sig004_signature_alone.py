"""A signature has no manifest next to it.

## What it does
Looks for MANIFEST.sha256 next to MANIFEST.sha256.sig.

## Why it matters
A signature without the text it signs proves nothing about the files.

## Example
MANIFEST.sha256 was removed so that files could be changed, and the signature left in place.

## Instead
Put back the manifest that was signed.

## Source
The layout: harness/submission/layout.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import SIGNATURE_NAME
from harness.submission.result import Result
from harness.submission.signature import verdict

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    found = verdict(result, ruleset.allowed_signers, ruleset.version)
    if found.state == "alone":
        yield Fault(str(result.path / SIGNATURE_NAME), None, found.why)
