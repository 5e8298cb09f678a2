"""A submission has no manifest.

## What it does
Looks for MANIFEST.sha256 in a folder that has a claim.

## Why it matters
The manifest states what was submitted. Without it a file can be changed, added or lost without anyone noticing.

## Example
A folder with submission.yaml and five logs.

## Instead
`tta submit` writes it.

## Source
The layout: harness/submission/layout.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import MANIFEST_NAME
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.kind == "submission" and MANIFEST_NAME not in result.files:
        yield Fault(str(result.path), None, f"the submission has no {MANIFEST_NAME}")
