"""The kept weights are missing, or are not those of the deciding evaluation.

## What it does
Where `tta_weights` names a file, looks for it next to the log, and compares its SHA-256 and its size with those in the
log. It must be called `weights_<k>.safetensors` like the log, and have at most 100 MiB. Where the weights are too large
for that, `submission.yaml` must say in `weights_at` where they are.

## Why it matters
From these weights the quality can be evaluated again. Others would have another quality, or the right one without
having been trained in this run; weights that nobody finds prove nothing.

## Example
`weights_2.safetensors` was not submitted, or was taken from another run.

## Instead
Submit the result as `tta run --keep-weights` left it; `tta submit --weights-at ADDRESS` for what is too large.

## Source
The log's format: `tta_weights`; harness/submission/weights.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from harness.submission.weights import are_apart, place_fault, wrong_with_weights

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for log in () if result.kind == "log" else result.runs:
        number, line = result.run_number(log), log.line_of(keys.TTA_WEIGHTS)
        if number is None or log.first(keys.TTA_WEIGHTS) is None:
            continue
        if log.field(keys.TTA_WEIGHTS, "file") is not None:
            if why := wrong_with_weights(log, number, result.files):
                yield Fault(str(log.path), line, why)
        elif are_apart(log) and result.claim is not None and (fault := place_fault(result.claim.weights_at)):
            place = printable(result.claim.weights_at, 100)
            message = f"the weights are too large for a submission, and weights_at is {place!r}: {fault}"
            yield Fault(str(log.path), line, message)
