"""Two runs have the same qualities at the same times.

## What it does
Compares the evaluations of the runs of a result: values and seconds since `run_start`. Copies that RUN004 finds are
left out.

## Why it matters
No two runs agree to the nanosecond. Such a run is a copy with a different name and a different seed.

## Example
`result_3.txt` is `result_1.txt` with seed and run_id changed.

## Instead
Make as many runs as the rules require.

## Source
MLPerf's duplicate test compares seeds together with the line of code that logged them, and misses this.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline
from harness.submission.result import Result
from rules.checks.run._runs import is_copy

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    seen: dict[tuple[tuple[float, float], ...], RunLog] = {}
    for log in result.runs:
        start = log.first(keys.RUN_START)
        if start is None:
            continue
        curve = tuple((value, log.seconds(start, event)) for event, value in timeline.qualities(log))
        first = seen.setdefault(curve, log)
        if not curve or is_copy(log, first):
            continue
        yield Fault(
            str(log.path),
            log.line_of(keys.EVAL_ACCURACY),
            f"all {len(curve)} evaluations have the qualities and the times of {first.path.name}",
        )
