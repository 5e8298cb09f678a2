"""The stated throughput contradicts the timestamps.

## What it does
Takes each `tracked_stats` with a throughput, and how far training advanced and how long it took since the previous one,
and compares the median of the ratios with 1. The log does not say what is counted (samples, batches or epochs), so the
unit that fits best is used.

## Why it matters
Compressing the timestamps of a log leaves the throughput that the framework measured unchanged.

## Example
All timestamps ten times closer together: 2,000 samples per second by the timestamps, 200 by the framework.

## Instead
Leave the log as it was written. A throughput per device needs an explanation.

## Source
Not a rule of MLCommons' compliance checker, which passes a log changed in this way; see
docs/reports/mlperf-agreement.md.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
MAX_FACTOR = 3.0
MIN_STATS = 3


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    ratios = compliance.speed_ratios(log)
    sizes = [log.value(name) for name in (keys.GLOBAL_BATCH_SIZE, keys.TRAIN_SAMPLES)]
    batch, samples = (1 if size is None else size for size in sizes)
    are_numbers = all(isinstance(size, int | float) and size > 0 for size in (batch, samples))  # else MLP030 reports it
    if len(ratios) < MIN_STATS or not are_numbers:
        return
    median = statistics.median(ratio for _, ratio in ratios)
    possible = [median * unit for unit in (1, batch, samples, batch * samples)]  # some state the data in batches
    ratio = min(possible, key=lambda ratio: abs(math.log(ratio)))
    if not 1 / MAX_FACTOR <= ratio <= MAX_FACTOR:
        yield Fault(
            str(log.path),
            ratios[0][0].lineno,
            f"by its timestamps training is {ratio:.2f} times as fast as the throughput that the log states (median of "
            f"{len(ratios)} lines); {1 / MAX_FACTOR:.2f} to {MAX_FACTOR:g} times is allowed",
            {"ratio": ratio, "num_lines": len(ratios)},
        )
