"""The clock of a metered node is not known well enough.

## What it does
Lays each node's clock over the referee's by the round trips in its power log, and expects the two to be no more than
0.8 s (`max_clock_error_s` of the rules) apart after correction; and a round trip in every log where there are several
nodes.

## Why it matters
Readings of another time are readings of another power: what is cut off at the start is idle, at the stop it is not.

## Example
A node whose clock jumped by 5 s during the run.

## Instead
Let `tta run` meter the nodes; its agents measure their clocks against the referee's.

## Source
PTDaemon's flow in MLPerf Inference has the same 0.8 s. An error of 5 s costs 5 % of a run of 82 s.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, voided

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    most_s = ruleset.energy.max_clock_error_s
    for run in voided(result, ruleset, "clocks_apart", "clock_unknown"):
        if "clocks_apart" in run.energy.void:
            error_s = run.energy.clock_error_s
            yield Fault(
                run.path(),
                None,
                f"a node's clock is {error_s:.2f} s from the referee's after correction; {most_s:g} s is the most; "
                f"{NOT_RANKED}",
                {"clock_error_s": error_s},
            )
        if "clock_unknown" in run.energy.void:
            silent = [node.node for node in run.log.nodes if node.specs and not node.offsets]
            yield Fault(
                run.path(silent[0]),
                None,
                f"{printable(', '.join(silent))}: no clock offset is logged, by which to lay it over the run; "
                f"{NOT_RANKED}",
                {"nodes": silent},
            )
