"""The same run appears twice in a result.

## What it does
Compares the bytes of the logs and the identity of the run (`run_id` in `tta_format`) over the runs of a result.

## Why it matters
A copy is not a second run: it narrows the spread and doubles the weight of a lucky run.

## Example
`result_3.txt` is a copy of `result_1.txt`.

## Instead
Make as many runs as the rules require.

## Source
MLPerf training rules, "Benchmark Results". Ten copies of one log with the division "close" pass MLPerf's package
checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    seen: dict[str, RunLog] = {}
    for log in result.runs:
        run_id = log.field(keys.TTA_FORMAT, "run_id")
        names = {log.sha256: "byte for byte the log"}
        if isinstance(run_id, str):
            names[f"run {run_id}"] = "the same run_id as"
        copied = next((f"{what} {seen[name].path.name}" for name, what in names.items() if name in seen), None)
        if copied is not None:
            yield Fault(str(log.path), log.line_of(keys.TTA_FORMAT), f"this is {copied}")
        for name in names:
            seen.setdefault(name, log)
