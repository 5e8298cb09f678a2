"""The power logs are not those of the run's nodes, each metered alike.

## What it does
Expects one power log of every node: as many as the system description's `number_of_nodes`, on the hosts of `tta_world`,
each with a meter that gives joules, and all metered at the same places.

## Why it matters
A node that is left out costs nothing. One that is metered at its processors and another at the wall make a sum of
two things.

## Example
Eight nodes trained, and there are power logs of seven.

## Instead
Meter every node, and all of them in one way.

## Source
MLPerf power measurement rules: one power log for each node of the system.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, voided

SCOPE = "result"
_WORDS = {
    "node_missing": "a node of the run has no power log, or none that gives joules",
    "node_extra": "a power log is of no node of the run",
    "scope_mixed": "the nodes are not all metered at the same places",
}


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in voided(result, ruleset, *_WORDS):
        found = [_WORDS[reason] for reason in run.energy.void if reason in _WORDS]
        described = "" if result.num_nodes is None else f" of {result.num_nodes} nodes described"
        yield Fault(
            run.path(),
            None,
            f"power logs of {run.energy.num_nodes}{described} ({run.energy.scope}): {'; '.join(found)}; {NOT_RANKED}",
            {"num_logs": run.energy.num_nodes, "num_nodes": result.num_nodes},
        )
