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

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.predictions import MAX_BYTES, predictions_name
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for log in () if result.kind == "log" else result.runs:
        name, number = log.field(keys.TTA_PREDICTIONS, "file"), result.run_number(log)
        evaluations = log.all(keys.EVAL_ACCURACY)
        if name is None or number is None:
            continue
        stated = evaluations[-1].metadata.get("predictions") if evaluations else None
        entry = result.files.get(name) if name == predictions_name(number) else None
        if name != predictions_name(number):
            why = f"the predictions are in {printable(name, 60)!r}; their name must be {predictions_name(number)}"
        elif entry is None or entry.kind != "file":
            why = f"{name} is missing"
        elif entry.num_bytes > MAX_BYTES:
            why = f"{name} has {entry.num_bytes:,} bytes; predictions of more than {MAX_BYTES:,} are not kept"
        elif entry.sha256 != stated:
            why = f"{name} is not what the last evaluation was about"
        else:
            continue
        yield Fault(str(log.path), log.line_of(keys.TTA_PREDICTIONS), why)
