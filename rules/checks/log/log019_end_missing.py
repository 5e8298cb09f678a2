"""A log has no final line.

## What it does
Looks for `tta_end`, the last line that the referee writes, which counts the events.

## Why it matters
Without it no one can tell whether lines are missing after `run_stop`.

## Example
The log ends with `run_stop`: energy and ledger were cut off.

## Instead
Copy the log again from where it was written, or run again.

## Source
The order of a run: harness/run/referee.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    # LOG001 reports a log without run_stop, LOG005 one that is cut off in its last line.
    if keys.TTA_END not in log.counts and keys.RUN_STOP in log.counts and not log.defects_of("cut_off"):
        last = log.events[-1].lineno
        yield Fault(str(log.path), last, "the log has no tta_end: lines may be missing at its end")
