"""A file below `power/` is not the power log of a run.

## What it does
Below `power/`, expects only `result_<k>/node_<i>.txt` and `sw_<j>.txt` of runs that exist, and the same files in
`idle/`.

## Why it matters
Such a file is not read, but a reader takes it for a measurement; or it is left over from a run that was set aside.

## Example
power/result_7/node_0.txt, but no result_7.txt.

## Instead
Submit the power logs of the runs, and nothing else.

## Source
The layout: harness/log/power_files.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.power_files import POWER_FOLDER, POWER_PATTERN
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for name, entry in result.files.items():
        if not name.startswith(f"{POWER_FOLDER}/") or entry.kind != "file":
            continue
        match = POWER_PATTERN.fullmatch(name)
        if match is None:
            yield Fault(str(result.path / name), None, "the name is not that of a power log; the file was not read")
        elif match[1] is not None and f"{match[1]}.txt" not in result.files:
            yield Fault(str(result.path / name), None, f"there is no run {match[1]}.txt; the file was not read")
