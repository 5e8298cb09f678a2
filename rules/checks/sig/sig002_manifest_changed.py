"""The manifest is not the one that was signed.

## What it does
Verifies the signature over MANIFEST.sha256 as it is now, with the key that the signature itself names.

## Why it matters
The manifest holds the digest of every file. Anyone can change a file and rewrite the manifest so that the digests
agree, but cannot sign it again without the key.

## Example
A log was edited, MANIFEST.sha256 rewritten with sha256sum, and the signature left unchanged.

## Instead
Restore what was signed, or have the submitter sign again.

## Source
OpenSSH, ssh-keygen(1), `-Y check-novalidate`; docs/explanation/integrity.md.
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
    if found.state == "changed":
        yield Fault(str(result.path / SIGNATURE_NAME), None, found.why)
