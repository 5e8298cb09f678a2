"""A power log is neither the referee's nor one that a person brought.

## What it does
Expects the power logs of a run's nodes to be in the harness's own form, and, where the referee says in `tta_energy`
that nothing was measured, to be brought by `tta power import`: all their meters are called csv:. The log of a switch,
which only adds to the energy and which no verb brings, may be of any form.

## Why it matters
Who writes a log for MLPerf's tools says neither of which run it is nor what was metered. And where the referee metered
nothing, no meter of its own can have read anything.

## Example
`tta_energy` has the source "none", and beside the log lie readings of ipmi:dcmi.

## Instead
`tta run --meter` meters a run; `tta power import` brings the readings of another meter.

## Source
Energy: docs/energy.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.energy.plausibility import of_nobody
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, voided

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in voided(result, ruleset, "of_nobody"):
        for node in run.log.nodes:
            if (why := of_nobody(node, run.log)) is not None:
                yield Fault(str(node.path), None, f"{why}; {NOT_RANKED}")
