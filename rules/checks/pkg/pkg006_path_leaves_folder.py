"""The manifest names a path outside its folder.

## What it does
Reports absolute paths and paths with `..` in the manifest. They are not opened.

## Why it matters
A manifest describes its own folder. A tool that followed such a path would read what no one submitted.

## Example
`../../other/results/box/result_0.txt`

## Instead
List the folder's own files, relative to it.

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
        if leaves_folder(name):
            yield Fault(
                str(result.path / MANIFEST_NAME),
                result.manifest_lines.get(name),
                f"{printable(name)!r} leads out of the submission's folder",
            )
