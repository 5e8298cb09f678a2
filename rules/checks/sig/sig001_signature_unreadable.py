"""The signature file contains no readable signature.

## What it does
Reads MANIFEST.sha256.sig: a regular file of at most 64 KiB with one armoured SSH signature of version 1.

## Why it matters
What cannot be read proves nothing, but looks as if it did.

## Example
A GnuPG signature, a link to another submission's signature, a truncated file.

## Instead
Sign again: `tta submit --sign KEY`, or `ssh-keygen -Y sign -f KEY -n tta-submission MANIFEST.sha256`.

## Source
OpenSSH, PROTOCOL.sshsig.
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
    if found.state == "unreadable":
        yield Fault(str(result.path / SIGNATURE_NAME), None, f"no SSH signature can be read from it: {found.why}")
