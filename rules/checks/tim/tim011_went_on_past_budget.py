"""A run continued training after its budget was spent.

## What it does
Expects no block to begin once `max_samples` samples have been trained or `max_seconds` have passed.

## Why it matters
The budget is the same for everyone; what is reached beyond it was not reached within it.

## Example
max_samples = 10,000, and a block that begins at 10,000 samples.

## Instead
Nothing; the run missed its target. A result may have one such run.

## Source
The ruleset: `max_samples` and `max_seconds` of the benchmark.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
EDGE_S = 0.1  # the referee reads its clock a moment before it writes the line


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    start = log.first(keys.RUN_START)
    if rules is None or start is None:
        return
    for event in log.all(keys.BLOCK_START):
        samples, elapsed_s = event.samples_count, log.seconds(start, event)
        if samples is not None and samples >= rules.max_samples:
            spent = f"{samples:,} samples; the budget is {rules.max_samples:,} samples"
        elif elapsed_s > rules.max_seconds + EDGE_S:
            spent = f"{elapsed_s:.1f} s; the budget is {rules.max_seconds:g} s"
        else:
            continue
        yield Fault(str(log.path), event.lineno, f"a block begins after {spent}")
        return
