"""A module is not the one that was run.

## What it does
Compares the SHA-256 of the module's file in benchmarks/<benchmark>/ (in code/ of a result without a claim) with the one
in `tta_config` of every run.

## Why it matters
The code that is shown is not the code that trained.

## Example
A comment was added to fast.py after the runs, or the trick in it was removed.

## Instead
Submit the module as it was run; run again if it was changed.

## Source
The layout: harness/submission/layout.py. MLPerf submission rules: results must be reproducible from the submitted code.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result, named_module

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for log in result.runs:
        module = named_module(log)
        if module is None:
            continue
        entry = result.code.get(module.name)
        if entry is not None and entry.kind == "file" and entry.sha256 != module.sha256:
            found = "more bytes than a module may have" if entry.sha256 is None else f"{entry.sha256[:12]}…"
            yield Fault(
                str(log.path),
                log.line_of(keys.TTA_CONFIG),
                f"the run used {module.name} with SHA-256 {module.sha256[:12]}…; the file here has {found}",
            )
