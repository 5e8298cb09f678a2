"""A file that the manifest lists is missing.

## What it does
Looks for every path in the manifest.

## Why it matters
Something that was submitted is gone.

## Example
The manifest lists `result_3.txt`; the folder has `result_0.txt` to `result_2.txt` and `result_4.txt`.

## Instead
Submit all of it again with `tta submit`.

## Source
The layout: harness/submission/layout.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import MANIFEST_NAME
from harness.submission.result import Result
from rules.checks.pkg._manifest import leaves_folder

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for name in result.manifest or {}:
        if name not in result.files and not leaves_folder(name):  # PKG006 reports those that do
            yield Fault(
                str(result.path / MANIFEST_NAME),
                result.manifest_lines.get(name),
                f"{printable(name)!r} is listed but missing",
            )
