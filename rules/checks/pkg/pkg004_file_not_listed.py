"""A file lies in a submission that the manifest does not list.

## What it does
Looks up every file of the folder, the manifest and the signature over it left out, in the manifest.

## Why it matters
What was not handed in does not belong here: a log that was put in later, a file that steers a tool.

## Example
result_5.txt, added after the submission.

## Instead
Remove it, or hand in again with `tta submit`.

## Source
MLPerf's checkers read files that lie in the submission and switch checks off (rcp-bypass) or scale scores
(scaling.json).
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
