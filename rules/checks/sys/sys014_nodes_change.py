"""The runs of a result were made on different nodes.

## What it does
Compares the names of the nodes in `tta_launch`, in the order of their ranks, over the runs of a result.

## Why it matters
Nodes of one kind differ in clock, cooling and links. A reader who compares runs must know that the machine was another.

## Example
Runs 0 to 2 on n1 and n2; after a loss of n2, runs 3 and 4 on n1 and n7.

## Instead
Nothing, where a node was replaced. Make all runs of a result in one allocation where you can.

## Source
MLPerf HPC: nodes may be replaced between runs (mlcommons/training_policies, issue 480).
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.sys._nodes import nodes_of

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    first: list[str] | None = None
    for log in result.runs:
        names = [str(node.get("host")) for node in nodes_of(log)]
        if first is None:
            first = names
        elif names != first:
            own, before = (printable(", ".join(those) or "one node", 200) for those in (names, first))
            message = f"made on {own}; the first run was made on {before}"
            yield Fault(str(log.path), log.line_of(keys.TTA_LAUNCH), message)
