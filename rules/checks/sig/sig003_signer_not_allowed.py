"""The signing key is not the submitter's.

## What it does
Looks up the key in the ruleset's allowed_signers, under the submitter named in the claim.

## Why it matters
Anyone can make a key and sign with it. Only the organiser's list says whose key it is.

## Example
The submission of acme is signed with a key that the list has for another submitter, or with one that has expired.

## Instead
Sign with the key that was given to the organiser, or have the organiser add this one.

## Source
OpenSSH, ssh-keygen(1), "ALLOWED SIGNERS".
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
    if found.state == "not_allowed":
        yield Fault(str(result.path / SIGNATURE_NAME), None, found.why)
