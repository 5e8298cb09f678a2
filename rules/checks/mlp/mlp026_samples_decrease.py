"""Sample or epoch counts decrease.

## What it does
Compares the positions in training (`samples_count`, else `epoch_num`, else `step_num`) of consecutive lines of one key;
in a run that was evaluated after training, from checkpoints, only of the lines before the first evaluation.

## Why it matters
Training goes forward. MLCommons' reference check takes the last number as the samples that the run needed.

## Example
Evaluations at 500,000, 400,000 and 300,000 samples.

## Instead
Count samples from the start of the run, and never decrease the count.

## Source
Not a rule of MLCommons' compliance checker, which passes a log changed in this way; see
docs/reports/mlperf-agreement.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.ruleset.model import BenchmarkRules, RuleSet
from rules.checks.mlp._keys import benchmark_of

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for name, lines in compliance.sequences(log, benchmark_of(log, ruleset)):
        places = compliance.progress_of_each(lines)
        numbers = [place for place in places if place is not None]
        if numbers == sorted(numbers):
            continue
        placed = [(line, place) for line, place in zip(lines, places, strict=True) if place is not None]
        back = [
            (b, f"{before:g}", f"{after:g}") for (_, before), (b, after) in itertools.pairwise(placed) if after < before
        ]
        line, before, after = back[0]
        more = f", one of {len(back):,} such steps" if len(back) > 1 else ""
        yield Fault(str(log.path), line.lineno, f"{name} is at {after} after one at {before}{more}")
