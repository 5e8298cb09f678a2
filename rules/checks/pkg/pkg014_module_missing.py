"""A module that a log names does not lie where modules lie.

## What it does
Looks for the file that `tta_config` names as the module: in benchmarks/<benchmark>/ of the submitter's folder, or, in a
result that nobody has claimed yet, in code/ beside the logs. It is never imported or run, and a link is not followed.

## Why it matters
A module runs in the process that trains, and can reach more than the parts it replaces. Whether it plays fair is for a
person to read, and there must be something to read.

## Example
The logs name fast.py, and benchmarks/image_classification_mini/ has no such file.

## Instead
`tta run` keeps the module in the result, and `tta submit` brings it to its place.

## Source
MLPerf submission rules: the source code of a submission is part of it, in benchmarks/<benchmark>/.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import events as key
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result, named_module

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.code_path is None:
        return  # of a single log
    for log in result.runs:
        module = named_module(log)
        if module is None:
            continue
        entry = result.code.get(module.name)
        if entry is None or entry.kind != "file":
            place = f"{result.code_path.parent.name}/{result.code_path.name}"
            yield Fault(
                str(log.path),
                log.line_of(key.TTA_CONFIG),
                f"it names the module {module.name}; there is no such regular file in {place}/",
            )
