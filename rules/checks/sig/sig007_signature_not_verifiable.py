"""Whose the signature is cannot be said here.

## What it does
Reports a signature where the ruleset has no allowed_signers, or ssh-keygen is not installed or does not work.

## Why it matters
A signature that nobody verified must not be taken for one that holds. Its key is named, so that a person can compare
it with one that the submitter told them.

## Example
A signed submission, judged by a ruleset that lists no signers.

## Instead
The organiser lists the keys: `<submitter> namespaces="tta-submission" ssh-ed25519 AAAA...`, a line each.

## Source
OpenSSH, ssh-keygen(1); docs/integrity.md.
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
    if found.state == "unverifiable":
        yield Fault(str(result.path / SIGNATURE_NAME), None, found.sentence)
