"""A power log was neither written by the referee nor imported.

## What it does
Expects the power logs of a run's nodes to be in `tta`'s own format. If the referee says in `tta_energy` that nothing
was measured, they must be from `tta power import`: all their meters have names beginning with csv:. The log of a
switch, which only adds to the energy and which no command imports, may have any format.

## Why it matters
A log in the format of MLPerf's tools says neither which run it belongs to nor what was metered. And if the referee
metered nothing, none of its meters can have read anything.

## Example
`tta_energy` has the source "none", but next to the log are readings of ipmi:dcmi.

## Instead
`tta run --meter` meters a run; `tta power import` imports the readings of another meter.

## Source
Energy: docs/explanation/energy.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.energy.plausibility import unattributed
from harness.energy.reasons import VoidReason
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, voided

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in voided(result, ruleset, VoidReason.UNATTRIBUTED):
        for node in run.log.nodes:
            if (why := unattributed(node, run.log)) is not None:
                yield Fault(str(node.path), None, f"{why}; {NOT_RANKED}")
