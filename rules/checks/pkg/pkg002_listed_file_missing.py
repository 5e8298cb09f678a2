"""A file that the manifest lists is not there.

## What it does
Looks for every path of the manifest.

## Why it matters
Something that was handed in is gone.

## Example
The manifest lists result_3.txt; there are result_0.txt to result_2.txt and result_4.txt.

## Instead
Hand in all of it again with `tta submit`.

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
        if name not in result.files and _is_inside(name):
            yield Fault(
                str(result.path / MANIFEST_NAME),
                result.manifest_lines.get(name),
                f"{printable(name)!r} is listed and is not there",
            )


def _is_inside(name: str) -> bool:
    """Whether the path could be one of the folder's at all; those that leave it are PKG006's."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts
