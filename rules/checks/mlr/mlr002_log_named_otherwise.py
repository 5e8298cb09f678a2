"""A log is not named `result_<number>.txt`, or a number is missing.

## What it does
Compares the names of the logs with result_0.txt to result_<n - 1>.txt, and looks for files that were meant as logs but
have no such name (result_7.txt.gz) or are in a subfolder. Failed runs may be kept there in good faith, but a reader who
counts runs must know of them.

## Why it matters
Only the numbers show which run is which, and whether one was left out. MLCommons' programs take any name that begins
with result_ and ends with .txt, and see nothing else.

## Example
result_4951-240509_raw_06.txt; result_0.txt to result_10.txt without result_7.txt; a folder that contains a100_1.log.

## Instead
Name the logs in the order of the runs, starting at result_0.txt.

## Source
MLPerf submission rules, "Submission directory structure"; mlperf_logging, package_checker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import layout
from harness.submission.result import Result

SCOPE = "result"
_MEANT = re.compile(r"[^/]*\.log|(?!power/)(?:.*/)?[^/]*result[^/]*\.txt(?:\.[^/]*)?", re.IGNORECASE)


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None:
        return
    names = layout.log_names(result.files)
    expected = [f"result_{number}.txt" for number in range(len(names))]
    if odd := [name for name in names if not layout.RESULT_PATTERN.fullmatch(name)]:
        more = f", and {len(odd) - 1} more" if len(odd) > 1 else ""
        yield Fault(str(result.path / odd[0]), None, f"a log must be named result_<number>.txt{more}")
    elif absent := [name for name in expected if name not in names]:
        yield Fault(str(result.path), None, f"none of {len(names)} logs is named {absent[0]}")
    for name in result.files:
        if _MEANT.fullmatch(name) and name not in names:
            message = "a log with this name is not read; it must be named result_<number>.txt"
            if "/" in name:
                message = "a log in a subfolder of the result is not read"
            yield Fault(str(result.path / name), None, message)
