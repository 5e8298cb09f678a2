"""A submission contains a file that its manifest does not list.

## What it does
Looks up every file of the folder in the manifest, except the manifest and the signature over it.

## Why it matters
What was not submitted does not belong here: a log that was added later, a file that controls a tool.

## Example
`result_5.txt`, added after the submission.

## Instead
Remove it, or submit again with `tta submit`.

## Source
MLPerf's checkers read files in the submission that switch checks off (rcp-bypass) or scale scores (scaling.json).
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import MANIFEST_NAME, SIGNATURE_NAME
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.manifest is None:
        return
    for name, entry in result.files.items():
        if name not in (MANIFEST_NAME, SIGNATURE_NAME) and name not in result.manifest and entry.kind == "file":
            yield Fault(str(result.path / name), None, f"the file is not listed in {MANIFEST_NAME}")
