"""The signer cannot be determined here.

## What it does
Reports a signature if the ruleset has no allowed_signers, or ssh-keygen is not installed or does not work.

## Why it matters
An unverified signature must not be taken for a valid one. Its key is shown so that a person can compare it with the one
the submitter gave them.

## Example
A signed submission, judged by a ruleset that lists no signers.

## Instead
The organiser lists the keys, one per line: `<submitter> namespaces="tta-submission" ssh-ed25519 AAAA...`.

## Source
OpenSSH, ssh-keygen(1); docs/explanation/integrity.md.
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
