"""Evaluations are missing.

## What it does
Compares how many evaluations were started with how many qualities were logged; and, for a log with a single evaluation,
counts the blocks or epochs trained before it, unless the schedule of the benchmark begins late (BERT, SSD). Runs that
were evaluated afterwards, from checkpoints, are exempt: not every checkpoint has to be evaluated.

## Why it matters
The schedule of evaluations is part of the rules: evaluating only where the target is sure to be reached saves the time
of the other evaluations.

## Example
Nine `eval_start`, one `eval_accuracy`.

## Instead
Log every evaluation with its quality.

## Source
Not a rule of MLCommons' compliance checker, which passes a log changed in this way; see
docs/reports/mlperf-agreement.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.ruleset.model import BenchmarkRules, RuleSet
from rules.checks.mlp._keys import benchmark_of

SCOPE = "log"
MAX_MISSING = 1  # the run may stop inside an evaluation
MAX_BLOCKS = 3


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    benchmark = benchmark_of(log, ruleset)
    if compliance.is_evaluated_afterwards(log, benchmark):
        return
    values = log.all(keys.EVAL_ACCURACY)
    placed = [place for place in compliance.progress_of_each(values) if place is not None]
    places = set(placed)
    started = set(compliance.progress_of_each(log.all(keys.EVAL_START))) - {None}
    num_missing = len(started) - len(places) - (len(values) - len(placed))
    if values and num_missing > MAX_MISSING:
        yield Fault(
            str(log.path),
            values[0].lineno,
            f"evaluations were started at {len(started)} points in training; a quality was logged at {len(places)}",
            {"num_missing": num_missing},
        )
    if len(places) != 1 or (benchmark is not None and benchmark.first_evaluations == "late"):
        return
    blocks = max((log.all(name) for name in compliance.TRAINING_ENDS), key=len)
    trained = {compliance.progress(line) for line in blocks if line.lineno < values[0].lineno}
    if len(trained) > MAX_BLOCKS:
        yield Fault(
            str(log.path),
            values[0].lineno,
            f"the only evaluation comes after {len(trained)} blocks or epochs; the evaluations before it are missing",
            {"num_blocks": len(trained)},
        )
