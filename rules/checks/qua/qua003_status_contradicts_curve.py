"""The status of a run contradicts its evaluations.

## What it does
Compares the status in `run_stop` with the last evaluation: "success" needs one that reaches the target, and a run whose
evaluations reached it must be a success. No status other than "success" and "aborted" exists.

## Why it matters
Success is what the evaluations show, not what a line says.

## Example
`run_stop` with status "success" after a last accuracy of 0.88; the target is 0.92.

## Instead
Submit the log as it was written.

## Source
MLPerf training rules, "Run Results". MLPerf's checker passes a status of "aborted" or "banana" where the target was
reached.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    stop = log.first(keys.RUN_STOP)
    if rules is None or stop is None or "status" not in stop.metadata:
        return
    status = timeline.status(log)
    values = [value for event, value in timeline.qualities(log) if event.lineno < stop.lineno]
    last = f"the last {rules.metric.name} is {values[-1]:g}" if values else "there is no evaluation"
    num_confirmed = timeline.num_confirmed(values, rules)
    if status not in (timeline.SUCCESS, timeline.ABORTED):
        stated = f"status {printable(stop.metadata['status'], 40)!r}"
        yield Fault(str(log.path), stop.lineno, f"run_stop has {stated}; it must be success or aborted")
    elif status == timeline.SUCCESS and num_confirmed == 0:
        yield Fault(
            str(log.path), stop.lineno, f"run_stop says success, but {last}, and the target is {rules.target:g}"
        )
    elif status == timeline.ABORTED and num_confirmed > rules.confirm_evaluations and not timeline.is_full_curve(log):
        yield Fault(
            str(log.path), stop.lineno, f"run_stop says aborted, but {last}, which reaches the target {rules.target:g}"
        )
