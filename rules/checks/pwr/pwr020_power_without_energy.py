"""Not all runs of a result are metered, or power logs give no energy.

## What it does
If one run has power logs, expects all runs to have them; and expects joules from each: a meter with readings, and a
run's log with `run_start`, `run_stop` and the clock that aligns the two.

## Why it matters
The energy of a result is the mean over the runs that its time is a mean of. A costly run must not be left out.

## Example
Five runs, but power/ has the logs of four.

## Instead
Meter every run, in one `tta run`.

## Source
MLPerf power measurement rules: the energy is of the same runs as the score.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.energy.reasons import VoidReason
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, metered

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    runs = list(metered(result, ruleset))
    for run in runs:
        for reason in (VoidReason.UNPLACED, VoidReason.NO_ENERGY):
            if reason in run.energy.void:
                yield Fault(run.path(), None, f"{reason.words(ruleset.energy)}; {NOT_RANKED}")
                break
    for log in result.runs if runs else ():
        if not log.nodes:
            yield Fault(str(log.path), None, f"it was not metered, but other runs were; {NOT_RANKED}")
