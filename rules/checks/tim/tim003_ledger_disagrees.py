"""The ledger does not agree with the events.

## What it does
Adds up the intervals and compares each phase with `tta_ledger`, within 1 % and 1 ms. Aborted runs are left out: they
have no time, and the block in which they broke off may be in one and not in the other.

## Why it matters
The ledger is a sum that anyone can redo. Where it differs, either the times of the events or the ledger was edited.

## Example
All times were divided by ten: the intervals sum to 0.51 s, the ledger says 5.1 s.

## Instead
Submit the log as it was written.

## Source
The ledger: harness/run/referee.py. An MLPerf log with all timestamps compressed tenfold passes its checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.values import finite_number
from harness.errors import LogError, printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline
from harness.scoring.run_result import derive_ledger

SCOPE = "log"
RELATIVE = 0.01
ABSOLUTE_S = 0.001


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    event = log.first(keys.TTA_LEDGER)
    if event is None or not isinstance(event.value, dict) or timeline.status(log) != timeline.SUCCESS:
        return
    try:
        derived = derive_ledger(log)
    except LogError as error:
        yield Fault(str(log.path), event.lineno, f"the ledger cannot be recomputed: {printable(error)}")
        return
    run_s = timeline.run_s(log)
    derived = {**derived, **({} if run_s is None else {"run": run_s})}
    wrong = []
    for phase, derived_s in derived.items():
        logged_s = finite_number(event.value.get(f"{phase}_s"))
        # The referee rounds to a microsecond; the last term keeps a difference of exactly 1 ms within the limit.
        if logged_s is not None and abs(logged_s - derived_s) > RELATIVE * abs(derived_s) + ABSOLUTE_S + 1e-9:
            wrong.append(f"{phase}_s is {logged_s:.3f} s, the events give {derived_s:.3f} s")
    if wrong:
        yield Fault(
            str(log.path),
            event.lineno,
            f"tta_ledger: {'; '.join(wrong)} (allowed: {RELATIVE:.0%} and {ABSOLUTE_S * 1e3:g} ms)",
            {"derived": derived},
        )
