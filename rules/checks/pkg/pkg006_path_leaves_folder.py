"""The manifest names a path outside its folder.

## What it does
Reports absolute paths and paths with `..` in the manifest. They are not looked at.

## Why it matters
A manifest speaks for its own folder. A tool that followed such a path would read what nobody handed in.

## Example
`../../other/results/box/result_0.txt`

## Instead
List the folder's own files, relative to it.

## Source
The layout: harness/submission/result.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import MANIFEST_NAME
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for name in result.manifest or {}:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            yield Fault(
                str(result.path / MANIFEST_NAME),
                result.manifest_lines.get(name),
                f"{printable(name)!r} leads out of the submission's folder",
            )
