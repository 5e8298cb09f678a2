"""The sample counts do not agree with the blocks.

## What it does
Expects samples to be counted from 0, in whole global batches, and never to decrease: a block begins where the one
before it ended and adds at least one batch; evaluations and `run_stop` have the count at which the last block ended.

## Why it matters
Cadence, budget and convergence are counted in samples. Changing the count changes all three.

## Example
A block from 1,000 to 1,950 samples with a global batch of 100.

## Instead
Count whole global batches over all devices, including samples that are repeated.

## Source
MLPerf logging: `samples_count`. MLPerf's checkers pass a decreasing one.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"
_WITHOUT_TRAINING = frozenset({keys.RUN_START, keys.BLOCK_START, keys.EVAL_START, keys.EVAL_STOP, keys.EVAL_ACCURACY})


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    batch_size = timeline.batch_size(log)
    samples = 0
    for event in log.events:
        count = event.samples_count
        if count is None or event.key not in (*_WITHOUT_TRAINING, keys.BLOCK_STOP, keys.RUN_STOP):
            continue
        if event.key == keys.BLOCK_STOP:
            fault = (
                f"it must be more than {samples:,}"
                if count <= samples
                else f"it must be a multiple of the global batch {batch_size:,}"
                if batch_size is not None and count % batch_size
                else None
            )
        else:
            is_fine = count == samples or (event.key == keys.RUN_STOP and timeline.status(log) != timeline.SUCCESS)
            fault = None if is_fine else f"the last block ended at {samples:,}"
        if fault is not None:
            yield Fault(str(log.path), event.lineno, f"{event.key} has {count:,} samples; {fault}", {"samples": count})
            return
        samples = count if event.key == keys.BLOCK_STOP else samples
        if event.key == keys.RUN_STOP:
            return
