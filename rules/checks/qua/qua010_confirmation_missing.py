"""A success was not confirmed.

## What it does
Where the benchmark has `confirm_evaluations`, expects that many evaluations right after the first that reached the
target to reach it too.

## Why it matters
An unstable metric reaches any target once. A model that reaches it again at the next evaluations has learned the task.

## Example
A mean return of 480, target 475, confirm_evaluations = 1, and `run_stop` with success right after it.

## Instead
Let the referee stop the run.

## Source
The ruleset: `confirm_evaluations` of the benchmark.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is None or timeline.status(log) != timeline.SUCCESS:
        return
    stop = log.first(keys.RUN_STOP)
    assert stop is not None  # the status is on run_stop
    values = [value for event, value in timeline.qualities(log) if event.lineno < stop.lineno]
    num_confirmed = timeline.num_confirmed(values, rules)
    # A last evaluation that does not reach the target at all is QUA003's.
    if 0 < num_confirmed <= rules.confirm_evaluations:
        yield Fault(
            str(log.path),
            stop.lineno,
            f"the last {num_confirmed} evaluations in a row reach the target; "
            f"a success needs {1 + rules.confirm_evaluations}",
            {"num_confirmed": num_confirmed},
        )
