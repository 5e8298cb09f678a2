"""A results folder has a file that looks like a log but is not one.

## What it does
Reports files like `result_05.txt` or `result_1.txt.bak`, whose names are almost those of logs.

## Why it matters
Such a file is neither judged nor counted, but a reader takes it for a run; or a run was set aside under that name.

## Example
`result_3.old.txt` next to `result_3.txt`.

## Instead
Submit the runs, numbered from `result_0.txt`, and nothing else.

## Source
The layout: harness/submission/layout.py. MLPerf's checkers count any result_*.txt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.findings import Fault
from harness.log.power_files import POWER_FOLDER
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import RESULT_PATTERN, UNFINISHED
from harness.submission.result import Result

SCOPE = "result"
_LOG_LIKE = re.compile(r"(?i)(.*/)?\.?result_?[0-9]+.*")


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for name, entry in result.files.items():
        # PWR019 and RUN017 look into the folders.
        is_log = RESULT_PATTERN.fullmatch(name) is not None or name.startswith((f"{POWER_FOLDER}/", f"{UNFINISHED}/"))
        if entry.kind == "file" and _LOG_LIKE.fullmatch(name) and not is_log:
            yield Fault(str(result.path / name), None, "the name is almost that of a log; the file was not judged")
