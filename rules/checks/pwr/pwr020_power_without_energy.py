"""The runs of a result are not all metered, or power logs come to no energy.

## What it does
Where one run has power logs, expects all to have them; and expects joules of each that has: a meter with readings, and
a run's log with `run_start`, `run_stop` and the clock by which the two are laid over each other.

## Why it matters
The energy of a result is the mean over the runs that its time is a mean of. A costly run must not be left out of it.

## Example
Five runs, and power/ has the logs of four.

## Instead
Meter every run, in one `tta run`.

## Source
MLPerf power measurement rules: the energy is of the same runs as the score.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, metered

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    runs = list(metered(result, ruleset))
    for run in runs:
        if "unplaced" in run.energy.void:
            why = "the run's log has no run_start, run_stop or clock by which to lay it over the run"
            yield Fault(run.path(), None, f"{why}; {NOT_RANKED}")
        elif "no_energy" in run.energy.void:
            yield Fault(run.path(), None, f"no meter in it gives joules; {NOT_RANKED}")
    for log in result.runs if runs else ():
        if not log.nodes:
            yield Fault(str(log.path), None, f"it was not metered, and other runs were; {NOT_RANKED}")
