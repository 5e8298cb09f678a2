"""Samples or epochs run backwards.

## What it does
Compares where in training the lines of one key say they are (`samples_count`, else `epoch_num`, else `step_num`), one
after the other.

## Why it matters
Training goes forward. MLCommons' reference check takes the last number as the samples that the run needed.

## Example
Evaluations at 500,000, 400,000 and 300,000 samples.

## Instead
Count samples from the start of the run, and never back.

## Source
Not a rule of MLCommons' compliance checker, which passes a log so changed; see docs/mlperf-agreement.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
KEYS = (
    keys.BLOCK_START,
    keys.BLOCK_STOP,
    "epoch_start",
    "epoch_stop",
    keys.EVAL_START,
    keys.EVAL_STOP,
    keys.EVAL_ACCURACY,
)


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for name in KEYS:
        lines = log.all(name)
        places = compliance.progress_of_each(lines)
        numbers = [place for place in places if place is not None]
        if numbers == sorted(numbers):
            continue
        placed = [(line, place) for line, place in zip(lines, places, strict=True) if place is not None]
        back = [
            (b, f"{before:g}", f"{after:g}") for (_, before), (b, after) in itertools.pairwise(placed) if after < before
        ]
        line, before, after = back[0]
        more = f", and {len(back) - 1:,} times more" if len(back) > 1 else ""
        yield Fault(str(log.path), line.lineno, f"{name} is at {after} after one at {before}{more}")
