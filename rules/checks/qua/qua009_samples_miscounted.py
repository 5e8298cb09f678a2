"""The count of samples does not go with the blocks.

## What it does
Expects samples to be counted from 0, in whole global batches, never down: a block begins where the one before it
ended and adds at least a batch; evaluation and `run_stop` stand where the last block ended.

## Why it matters
Cadence, budget and convergence are counted in samples. Whoever moves the count moves all three.

## Example
A block from 1,000 to 1,950 samples with a global batch of 100.

## Instead
Count whole global batches over all devices, samples that are repeated too.

## Source
MLPerf logging: `samples_count`; its checkers pass a decreasing one.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import events as key
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"
_STANDING = frozenset({key.RUN_START, key.BLOCK_START, key.EVAL_START, key.EVAL_STOP, key.EVAL_ACCURACY})


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    batch_size = timeline.batch_size(log)
    samples = 0
    for event in log.events:
        count = event.samples_count
        if count is None or event.key not in (*_STANDING, key.BLOCK_STOP, key.RUN_STOP):
            continue
        if event.key == key.BLOCK_STOP:
            fault = (
                f"it must be more than {samples:,}"
                if count <= samples
                else f"it must be a multiple of the global batch {batch_size:,}"
                if batch_size is not None and count % batch_size
                else None
            )
        else:
            is_fine = count == samples or (event.key == key.RUN_STOP and timeline.status(log) != timeline.SUCCESS)
            fault = None if is_fine else f"the last block ended at {samples:,}"
        if fault is not None:
            yield Fault(str(log.path), event.lineno, f"{event.key} has {count:,} samples; {fault}", {"samples": count})
            return
        samples = count if event.key == key.BLOCK_STOP else samples
        if event.key == key.RUN_STOP:
            return
