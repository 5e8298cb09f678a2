"""Two runs of a result took place at the same time.

## What it does
Compares the wall time of the first and the last line of each run with those of the others.

## Why it matters
Two runs on one system halve it; two runs at one time on two systems are not of one system.

## Example
result_1.txt from 12:00:00 to 12:05:00, result_2.txt from 12:03:00 on.

## Instead
Run one after the other, as `tta run` does.

## Source
MLPerf training rules, "System and framework must be consistent".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness import events as key
from harness.findings import Fault
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runlog import RunLog
from harness.submission import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    spans = sorted(
        ((log.events[0].time_ms, log.events[-1].time_ms, log.path.name, log) for log in result.runs if log.events),
        key=lambda span: span[:3],
    )
    for before, after in itertools.pairwise(spans):
        log = after[3]
        # Copies have the same times; they are found as what they are.
        if after[0] < before[1] and log.sha256 != before[3].sha256 and not _is_same_run(log, before[3]):
            yield Fault(
                str(log.path),
                log.events[0].lineno,
                f"the run began {(before[1] - after[0]) / 1e3:.1f} s before {before[2]} had ended",
            )


def _is_same_run(log: RunLog, other: RunLog) -> bool:
    run_id = log.field(key.TTA_FORMAT, "run_id")
    return run_id is not None and run_id == other.field(key.TTA_FORMAT, "run_id")
