"""The manifest cannot be read, in whole or in part.

## What it does
Reports a manifest that is not text, or lines that are not `<sha256>  <path>`, or that list a path twice.

## Why it matters
The digest of a file in such a line is not compared with anything.

## Example
`result_0.txt: 3f2a…`

## Instead
`tta submit` writes it, in the format of `sha256sum`.

## Source
The layout: harness/submission/layout.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import MANIFEST_NAME
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for part in result.unreadable:
        if part.path.name == MANIFEST_NAME:
            number = re.match(r"line ([0-9]+): ", part.message)
            yield Fault(str(part.path), int(number.group(1)) if number else None, printable(part.message))
