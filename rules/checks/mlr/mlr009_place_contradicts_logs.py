"""A log contradicts its folder or its system description about benchmark or division.

## What it does
Compares `submission_benchmark` with the name of the folder, and `submission_division` with `division` of the system
description.

## Why it matters
The place decides in which table a result appears and which checks apply; the log decides what was run. MLCommons'
programs take each from wherever they need it.

## Example
A log of rnnt in results/box/bert; open in the description, closed in the logs.

## Instead
Put each result in the folder of its benchmark, and describe one division per system description.

## Source
MLPerf submission rules, "Submission directory structure".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import layout
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None or result.kind == "log":
        return
    benchmark, folder = result.benchmark, result.path.absolute().name
    if benchmark is not None and layout.is_result_place(result.path) and benchmark != folder:
        line = result.runs[0].line_of("submission_benchmark")
        message = f"submission_benchmark is {printable(benchmark, 60)}; the folder is {printable(folder, 60)}"
        yield Fault(str(result.runs[0].path), line, message)
    described = (result.system or {}).get("division")
    if not isinstance(described, str) or described.lower() not in ruleset.divisions:
        return  # a missing or misspelt division is another finding
    for log in result.runs:
        division = log.value("submission_division")
        if division != described.lower() and division in ruleset.divisions:
            message = f"submission_division is {division}; the system description has {printable(described, 60)!r}"
            yield Fault(str(log.path), log.line_of("submission_division"), message)
            return
