"""The manifest is not the one that was signed.

## What it does
Verifies the signature over MANIFEST.sha256 as it is now, with the key that the signature itself names.

## Why it matters
The manifest holds the digest of every file. Whoever changed a file and wrote the manifest anew, so that the digests
agree, has no key to sign it again.

## Example
A log was edited, MANIFEST.sha256 written anew with sha256sum, and the signature left as it was.

## Instead
Put back what was signed, or have the submitter sign anew.

## Source
OpenSSH, ssh-keygen(1), `-Y check-novalidate`; docs/integrity.md.
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
