"""Two runs of a result took place at the same time.

## What it does
Compares the wall time of the first and last lines of each run with those of the others.

## Why it matters
Two runs on one system share it; two simultaneous runs on two systems are not runs of one system.

## Example
`result_1.txt` from 12:00:00 to 12:05:00, `result_2.txt` from 12:03:00 on.

## Instead
Make the runs one after the other, as `tta run` does.

## Source
MLPerf training rules, "System and framework must be consistent".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.run._runs import is_copy

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    logs = sorted((log for log in result.runs if log.events), key=_span)
    for before, log in itertools.pairwise(logs):
        (begin_ms, _, _), (_, end_ms, name) = _span(log), _span(before)
        if begin_ms < end_ms and not is_copy(log, before):  # copies have the same times
            yield Fault(
                str(log.path),
                log.events[0].lineno,
                f"the run began {(end_ms - begin_ms) / 1e3:.1f} s before {name} had ended",
            )


def _span(log: RunLog) -> tuple[float, float, str]:
    return log.events[0].time_ms, log.events[-1].time_ms, log.path.name
