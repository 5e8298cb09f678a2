"""An evaluation has no number, or no valid position in training.

## What it does
Looks at every `eval_accuracy`: the value must be a finite number (Mask R-CNN: an object of them); samples, epochs and
steps in the metadata, where present, must be numbers from 0 to 2^63; and where both samples and epochs are present,
their ratio must be the same throughout. Also reports `eval_error`, which is not a key of any round.

## Why it matters
Convergence is counted at the last evaluation before `run_stop`, whatever its value. One line without a value but with a
convenient number of samples slows down a result that converges too fast; a run whose position is null counts as the
slowest.

## Example
After the evaluation that reaches the target: `eval_error` null at 3,686 samples; the run had 3,072.

## Instead
Log the quality that was computed, and the samples or epochs that it took.

## Source
MLPerf training rules, "Reference Convergence Points". Not a rule of MLCommons' compliance checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import finite_number
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.mlperf.compliance import POSITION_FIELDS
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
MAX_PLACE = 2.0**63
MIN_EQUAL = 0.9  # epochs may be rounded


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    lines = log.all(keys.EVAL_ACCURACY)
    without_number = [line for line in lines if not _is_quality(line.value)]
    without_position = [
        line
        for line in lines
        if any(name in line.metadata and _place(line.metadata[name]) is None for name in POSITION_FIELDS)
    ]
    for broken, must in (
        (without_number, "have a finite number as value"),
        (without_position, "state its position as a number from 0"),
    ):
        if broken:
            message = f"{keys.EVAL_ACCURACY} must {must}; it does not on {len(broken):,} of {len(lines):,} lines"
            yield Fault(str(log.path), broken[0].lineno, message, {"num_lines": len(broken)})
    both = [tuple(_place(line.metadata.get(name)) for name in ("samples_count", "epoch_num")) for line in lines]
    ratios = [samples / epochs for samples, epochs in both if samples and epochs]
    if ratios and min(ratios) < MIN_EQUAL * max(ratios):
        message = (
            f"samples_count divided by epoch_num ranges from {min(ratios):g} to {max(ratios):g}; it must be constant"
        )
        yield Fault(str(log.path), lines[0].lineno, message)
    if error := log.first("eval_error"):
        message = "eval_error is not a key of any round, but counts as the last evaluation if it comes last"
        yield Fault(str(log.path), error.lineno, message)


def _is_quality(value: object) -> bool:
    values = list(value.values()) if isinstance(value, dict) else [value]
    return bool(values) and all(finite_number(item) is not None for item in values)


def _place(value: object) -> float | None:
    place = finite_number(value)
    return place if place is not None and 0 <= place <= MAX_PLACE else None
