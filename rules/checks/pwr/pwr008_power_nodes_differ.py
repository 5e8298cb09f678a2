"""The power logs do not match the nodes of the run, or the nodes are not metered alike.

## What it does
Expects one power log of every node: as many as the system description's `number_of_nodes`, from the hosts of
`tta_world`, each with a meter that gives joules, and all metered in the same places.

## Why it matters
A node that is left out costs nothing. A node metered at its processors and another metered at the wall add up to a sum
of two different quantities.

## Example
Eight nodes trained, but there are power logs of seven.

## Instead
Meter every node, and all of them in the same way.

## Source
MLPerf power measurement rules: one power log for each node of the system.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.energy.reasons import VoidReason
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, voided

SCOPE = "result"
_REASONS = (VoidReason.NODE_MISSING, VoidReason.NODE_EXTRA, VoidReason.SCOPE_MIXED)


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in voided(result, ruleset, *_REASONS):
        found = [reason.words(ruleset.energy) for reason in run.energy.void if reason in _REASONS]
        described = "" if result.num_nodes is None else f", described nodes: {result.num_nodes}"
        yield Fault(
            run.path(),
            None,
            f"power logs: {run.energy.num_nodes}{described} ({run.energy.scope}): {'; '.join(found)}; {NOT_RANKED}",
            {"num_logs": run.energy.num_nodes, "num_nodes": result.num_nodes},
        )
