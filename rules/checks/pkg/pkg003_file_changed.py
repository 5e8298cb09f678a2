"""A file is not the one that was submitted.

## What it does
Compares the SHA-256 of every file with the manifest.

## Why it matters
It was changed after the submission was put together.

## Example
`result_2.txt` was opened in an editor and saved.

## Instead
Submit the runs unchanged with `tta submit`.

## Source
The layout: harness/submission/layout.py. `sha256sum --check MANIFEST.sha256` does the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import MANIFEST_NAME
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for name, digest in (result.manifest or {}).items():
        entry = result.files.get(name)
        if entry is not None and entry.kind == "file" and entry.sha256 != digest:
            yield Fault(
                str(result.path / MANIFEST_NAME),
                result.manifest_lines.get(name),
                f"{printable(name)!r} was changed: it has SHA-256 {(entry.sha256 or 'unreadable')[:12]}…; "
                f"the manifest lists {digest[:12]}…",
            )
