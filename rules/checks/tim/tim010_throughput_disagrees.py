"""The stated throughput is not that of the block.

## What it does
Compares `throughput` in `tracked_stats` with the samples and the seconds of the block before it, within 1 %.

## Why it matters
The referee computes it from the same two events. Where it differs, times or sample counts were edited.

## Example
Times were divided by ten: 1,000 samples in 0.2 s, and the log still says 500 samples per second.

## Instead
Submit the log as it was written.

## Source
The run: harness/run/referee.py. No MLPerf tool compares a logged throughput with the times.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import finite_number
from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline

SCOPE = "log"
RELATIVE = 0.01


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for event, start, stop in timeline.block_stats(log):
        stated = finite_number(event.value.get("throughput")) if isinstance(event.value, dict) else None
        block_s = log.seconds(start, stop)
        if stated is None or start.samples_count is None or stop.samples_count is None or block_s <= 0:
            continue
        derived = (stop.samples_count - start.samples_count) / block_s
        if abs(stated - derived) > RELATIVE * abs(derived):
            yield Fault(
                str(log.path),
                event.lineno,
                f"throughput is {stated:.1f} samples/s; the block before it ran at {derived:.1f} samples/s",
                {"stated": stated, "derived": derived},
            )
