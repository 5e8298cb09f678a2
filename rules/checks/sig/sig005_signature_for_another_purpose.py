"""The signature was made for another purpose.

## What it does
Compares the namespace in the signature with `tta-submission`.

## Why it matters
A key also signs commits and mail. The namespace prevents a signature made for one purpose from being presented as made
for another.

## Example
A signature made by git, in the namespace `git`.

## Instead
Sign with `-n tta-submission`, as `tta submit --sign` does.

## Source
OpenSSH, PROTOCOL.sshsig: the namespace prevents cross-protocol attacks.
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
    if found.state == "namespace":
        yield Fault(str(result.path / SIGNATURE_NAME), None, found.why)
