"""The rules require a signature, and no valid one was found.

## What it does
Where the ruleset has `signatures: required`: reports a submission that is not signed, or whose signature cannot be
verified here. SIG001 to SIG005 report what is wrong with a signature that is there.

## Why it matters
Without a signature no one can tell who submitted the result.

## Example
A submission without MANIFEST.sha256.sig; or with one, but checked where ssh-keygen is not installed.

## Instead
`tta submit --sign KEY`; to verify, install OpenSSH's ssh-keygen and put allowed_signers into the ruleset.

## Source
The setting `signatures` of rules/*/ruleset.yaml.
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
    if result.kind == "submission" and ruleset.requires_signature and found.state in ("unsigned", "unverifiable"):
        message = f"the rules require a signature ({SIGNATURE_NAME}); the submission is {found.sentence}"
        yield Fault(str(result.path), None, message)
