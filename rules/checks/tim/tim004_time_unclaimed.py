"""Too much of the timed region belongs to no phase.

## What it does
Takes blocks, evaluations and the opening of the data away from the time between `run_start` and `run_stop`. What is
left must be at most `timing.max_unclaimed_fraction` of it, or at most `timing.max_unclaimed_s`.

## Why it matters
Time that nobody claims is time in which something happened that the log does not show; or events were taken out.

## Example
A run of 100 s with blocks and evaluations of 90 s: 10 % unclaimed, 1 % allowed.

## Instead
Find what the machine did between the blocks (a suspended laptop, a full disk), and run again.

## Source
The clock ledger: harness/run/referee.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import LogError
from harness.findings import Fault
from harness.log import events as key
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline
from harness.scoring.run_result import derive_ledger

SCOPE = "log"
_PHASES = (
    (key.TTA_DATA_OPEN_START, key.TTA_DATA_OPEN_STOP),
    (key.BLOCK_START, key.BLOCK_STOP),
    (key.EVAL_START, key.EVAL_STOP),
)


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    start, stop = log.first(key.RUN_START), log.first(key.RUN_STOP)
    if start is None or stop is None:
        return
    run_s = log.seconds(start, stop)
    try:
        unclaimed_s = derive_ledger(log)["other"]
    except LogError:
        return  # what cannot be summed is reported by TIM003
    if run_s <= 0:
        return
    if timeline.status(log) != timeline.SUCCESS:
        # The interval that an aborted run broke off in is claimed until run_stop.
        for start_key, stop_key in _PHASES:
            last = timeline.intervals(log, start_key, stop_key)[-1:]
            unclaimed_s -= sum(log.seconds(item.start, stop) for item in last if item.stop is None)
    timing = ruleset.timing
    fraction = unclaimed_s / run_s
    # A nanosecond of slack: the limits themselves are within, and the sums are of binary fractions.
    if unclaimed_s > timing.max_unclaimed_s + 1e-9 and fraction > timing.max_unclaimed_fraction + 1e-9:
        yield Fault(
            str(log.path),
            stop.lineno,
            f"{unclaimed_s:.3f} s of {run_s:.3f} s ({fraction:.1%}) belong to no phase; "
            f"allowed are {timing.max_unclaimed_fraction:.1%}, or {timing.max_unclaimed_s:g} s",
            {"unclaimed_s": unclaimed_s, "run_s": run_s},
        )
