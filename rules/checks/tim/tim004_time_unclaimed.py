"""Too much of the timed region belongs to no phase.

## What it does
Subtracts blocks, evaluations and the opening of the data from the time between `run_start` and `run_stop`. What is left
must be at most `timing.max_unclaimed_fraction` of that time, or at most `timing.max_unclaimed_s`.

## Why it matters
In time that belongs to no phase, something happened that the log does not show; or events were removed.

## Example
A run of 100 s with 90 s of blocks and evaluations: 10 % unclaimed, 1 % allowed.

## Instead
Find out what the machine did between the blocks (a suspended laptop, a full disk), and run again.

## Source
The clock ledger: harness/run/referee.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import LogError
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline
from harness.scoring.run_result import derive_ledger

SCOPE = "log"
_PHASES = (
    (keys.TTA_DATA_OPEN_START, keys.TTA_DATA_OPEN_STOP),
    (keys.BLOCK_START, keys.BLOCK_STOP),
    (keys.EVAL_START, keys.EVAL_STOP),
    (keys.TTA_CHECKPOINT_START, keys.TTA_CHECKPOINT_STOP),
    (keys.TTA_RESTORE_START, keys.TTA_RESTORE_STOP),
)


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    start, stop = log.first(keys.RUN_START), log.first(keys.RUN_STOP)
    if start is None or stop is None:
        return
    run_s = log.seconds(start, stop)
    try:
        unclaimed_s = derive_ledger(log)["other"]
    except LogError:
        return  # TIM003 reports a ledger that cannot be computed
    if run_s <= 0:
        return
    if timeline.status(log) != timeline.SUCCESS:
        # The interval in which an aborted run broke off counts as claimed until run_stop.
        for start_key, stop_key in _PHASES:
            last = timeline.intervals(log, start_key, stop_key)[-1:]
            unclaimed_s -= sum(log.seconds(item.start, stop) for item in last if item.stop is None)
    timing = ruleset.timing
    fraction = unclaimed_s / run_s
    # A nanosecond of slack: the limits themselves are allowed, and the sums are of binary fractions.
    if unclaimed_s > timing.max_unclaimed_s + 1e-9 and fraction > timing.max_unclaimed_fraction + 1e-9:
        yield Fault(
            str(log.path),
            stop.lineno,
            f"{unclaimed_s:.3f} s of {run_s:.3f} s ({fraction:.1%}) belong to no phase; "
            f"at most {timing.max_unclaimed_fraction:.1%} or {timing.max_unclaimed_s:g} s may",
            {"unclaimed_s": unclaimed_s, "run_s": run_s},
        )
