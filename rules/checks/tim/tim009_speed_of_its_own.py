"""One run is much faster than the others of its result.

## What it does
Compares each run's training speed (samples per second inside blocks, without the first block if there are more) with
the median of the others, and reports a run that is more than twice as fast.

## Why it matters
The same work on the same system takes about the same time. A run whose times were all divided by ten is consistent in
itself, but stands out next to the others.

## Example
Four runs train at 500 samples per second, the fifth at 5,000.

## Instead
Find the reason (other load on the machine, a throttled clock) and run all of them again.

## Source
MLPerf training rules, "System and framework must be consistent". In published v5.1 results, speeds more than 10 % from
the median were rare; small shared machines vary more.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline
from harness.submission.result import Result

SCOPE = "result"
FACTOR = 2.0


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    speeds = [(log, speed) for log in result.runs if (speed := _speed(log)) is not None]
    if len(speeds) < 3:
        return
    for log, speed in speeds:
        median = statistics.median(other for another, other in speeds if another is not log)
        if speed > FACTOR * median:
            yield Fault(
                str(log.path),
                log.line_of(keys.BLOCK_START),
                f"the run trains at {speed:.1f} samples/s, {speed / median:.1f} times the median of the others "
                f"({median:.1f} samples/s); up to {FACTOR:g} times is usual",
                {"samples_per_s": speed, "median_samples_per_s": median},
            )


def _speed(log: RunLog) -> float | None:
    blocks = [
        (after - before, log.seconds(item.start, item.stop))
        for item in timeline.intervals(log, keys.BLOCK_START, keys.BLOCK_STOP)
        if item.stop is not None
        and (before := item.start.samples_count) is not None
        and (after := item.stop.samples_count) is not None
    ]
    blocks = blocks[1:] or blocks  # the first block compiles and fills caches
    seconds = sum(block_s for _, block_s in blocks)
    return sum(samples for samples, _ in blocks) / seconds if seconds > 0 else None
