"""A module that a log names is missing.

## What it does
Looks for the file that `tta_config` names as the module: in benchmarks/<benchmark>/ of the submitter's folder or, in a
result without a claim, in code/ next to the logs. It is never imported or run, and a link is not followed.

## Why it matters
A module runs in the process that trains, and can reach more than the parts it replaces. A person has to read it to
judge whether it plays fair, so it must be there to read.

## Example
The logs name fast.py, and benchmarks/image_classification_mini/ has no such file.

## Instead
`tta run` keeps the module in the result, and `tta submit` puts it in its place.

## Source
MLPerf submission rules: the source code of a submission is part of it, in benchmarks/<benchmark>/.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result, named_module

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.code_path is None:
        return  # a single log has no place for code
    for log in result.runs:
        module = named_module(log)
        if module is None:
            continue
        entry = result.code.get(module.name)
        if entry is None or entry.kind != "file":
            place = f"{result.code_path.parent.name}/{result.code_path.name}"
            yield Fault(
                str(log.path),
                log.line_of(keys.TTA_CONFIG),
                f"the run names the module {module.name}; there is no such regular file in {place}/",
            )
