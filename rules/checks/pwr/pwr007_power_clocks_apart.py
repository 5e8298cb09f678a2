"""The clock of a metered node is not known accurately enough.

## What it does
Aligns each node's clock with the referee's by the round trips in its power log, and expects the two to be at most 0.8 s
apart after correction (`max_clock_error_s` of the rules). If there are several nodes, every log must have a round trip.

## Why it matters
Readings from another time show another power: a shifted window adds idle time at one edge and cuts off work at the
other.

## Example
A node whose clock jumped by 5 s during the run.

## Instead
Let `tta run` meter the nodes; its agents measure their clocks against the referee's.

## Source
PTDaemon's flow in MLPerf Inference also allows 0.8 s. An error of 5 s costs 5 % of a run of 82 s.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.energy.reasons import VoidReason
from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, voided

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    most_s = ruleset.energy.max_clock_error_s
    for run in voided(result, ruleset, VoidReason.CLOCKS_APART, VoidReason.CLOCK_UNKNOWN):
        if VoidReason.CLOCKS_APART in run.energy.void:
            error_s = run.energy.clock_error_s
            yield Fault(
                run.path(),
                None,
                f"a node's clock is {error_s:.2f} s from the referee's after correction; the limit is {most_s:g} s; "
                f"{NOT_RANKED}",
                {"clock_error_s": error_s},
            )
        if VoidReason.CLOCK_UNKNOWN in run.energy.void:
            silent = [node.node for node in run.log.nodes if node.specs and not node.offsets]
            yield Fault(
                run.path(silent[0]),
                None,
                f"{printable(', '.join(silent))}: no clock offset is logged to align it with the run; {NOT_RANKED}",
                {"nodes": silent},
            )
