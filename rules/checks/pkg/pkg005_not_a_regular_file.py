"""A result contains something that is not a regular file.

## What it does
Reports symbolic links, pipes, sockets and devices in a results folder. None of them is followed or opened.

## Why it matters
A link shows whatever is at its destination, which can change over time and between machines.

## Example
`result_3.txt` is a link to another submitter's log.

## Instead
Replace it with the file itself.

## Source
MLPerf submission rules. MLPerf's repository checker resolves links relative to where it was started.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    kinds = {"link": "a symbolic link", "other": "a pipe, socket or device", "folder": "a folder that cannot be listed"}
    for name, entry in result.files.items():
        if entry.kind in kinds:
            yield Fault(str(result.path / name), None, f"this is {kinds[entry.kind]}; only regular files are allowed")
