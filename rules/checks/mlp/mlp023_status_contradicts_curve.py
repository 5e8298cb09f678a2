"""The status of the run contradicts its evaluations.

## What it does
Looks at `status` in the metadata of `run_stop`: it must be "success" or "aborted", and "success" if an evaluation
reached the target.

## Why it matters
MLCommons' checker requires a status but accepts any; the score counts the run all the same.

## Example
`status` is "aborted", and the log passes because one evaluation reached the target.

## Instead
Write "success" when the target is reached, "aborted" otherwise.

## Source
Not a rule of MLCommons' compliance checker, which passes a log changed in this way; see
docs/reports/mlperf-agreement.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
STATUSES = ("success", "aborted")


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    stop = log.first(keys.RUN_STOP)
    if stop is None or "status" not in stop.metadata or ruleset.round is None:
        return
    status = stop.metadata["status"]
    if status not in STATUSES:
        yield Fault(str(log.path), stop.lineno, f"status is {printable(status, 60)!r}; it must be success or aborted")
    elif status == "aborted" and compliance.reached(log, ruleset.round):
        yield Fault(str(log.path), stop.lineno, "status is 'aborted', but an evaluation reached the target")
