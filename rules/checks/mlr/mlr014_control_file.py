"""The submission contains a file that switches off checks of MLCommons' programs.

## What it does
Looks for package_checker_params in the result's folder and in its system's folder, and for file names that contain
bypass.

## Why it matters
Such a file says rcp-bypass or seed-checker-bypass, and MLCommons' package checker then passes what it would refuse,
even in later folders. `tta` ignores it; that it is there is worth a look.

## Example
results/box/package_checker_params with the line rcp-bypass: four results of round 4.0.

## Instead
Leave it out; if a reference is missing, submit reference runs.

## Source
mlperf_logging, package_checker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission import claim, layout
from harness.submission.result import Result

SCOPE = "result"
_BYPASS = re.compile(r"^package_checker_params$|bypass", re.IGNORECASE)


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None or result.kind == "log":
        return
    found = [result.path / name for name in result.files if _BYPASS.search(name.rpartition("/")[2])]
    in_system = result.path.absolute().parent / layout.PARAMETERS_NAME
    if layout.is_result_place(result.path) and in_system.exists():
        found.append(in_system)
    for path in found:
        yield Fault(str(path), None, f"this file controls a checker ({claim.excerpt(path)}); it is ignored")
