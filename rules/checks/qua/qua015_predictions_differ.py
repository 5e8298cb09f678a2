"""The kept predictions are missing, or are not those of the deciding evaluation.

## What it does
Where `tta_predictions` names a file, looks for it next to the log, and compares its SHA-256 with `predictions` of the
last `eval_accuracy`. It must be called `predictions_<k>.npz` like the log, and have at most 64 MiB.

## Why it matters
From these predictions the quality can be computed again. Others would give another quality, or the right one without
having been made by this run.

## Example
`predictions_2.npz` was not submitted, or was taken from another run.

## Instead
Submit the result as `tta run` left it.

## Source
The log's format: `tta_predictions`; harness/submission/predictions.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.predictions import wrong_with
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for log in () if result.kind == "log" else result.runs:
        number = result.run_number(log)
        if number is None or log.field(keys.TTA_PREDICTIONS, "file") is None:
            continue
        if why := wrong_with(log, number, result.files):
            yield Fault(str(log.path), log.line_of(keys.TTA_PREDICTIONS), why)
