"""There is no idle baseline.

## What it does
If a run was metered by `tta`, looks for the power logs of an idle minute in `power/idle/`.

## Why it matters
Idle power is between a third and a half of what a node draws in training. It is shown next to the energy, and
subtracted from nothing.

## Example
A result with `power/result_0` and without `power/idle`.

## Instead
Let `tta run --meter` measure the baseline before the first run.

## Source
`tta`'s; SPECpower and PTDaemon's flow measure idle as a load level of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import metered

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in metered(result, ruleset):
        has_own_log = any(node.dialect == "tta" for node in run.log.nodes)
        if has_own_log and run.energy.meter_class in ("A", "B", "C", "D") and not run.log.idle:
            yield Fault(run.path(), None, "the run was metered, but there is no idle baseline in power/idle/")
            return
