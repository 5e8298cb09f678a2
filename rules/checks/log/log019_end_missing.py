"""A log has no last line.

## What it does
Looks for `tta_end`, which the referee writes last and which counts the events.

## Why it matters
Without it nobody can tell whether lines are missing after `run_stop`.

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
from harness.log import events as key
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    # A log without run_stop, or cut off in its last line, is reported as just that.
    if key.TTA_END not in log.counts and key.RUN_STOP in log.counts and not log.defects_of("cut_off"):
        last = log.events[-1].lineno
        yield Fault(str(log.path), last, "the log has no tta_end: whether lines are missing at its end cannot be known")
