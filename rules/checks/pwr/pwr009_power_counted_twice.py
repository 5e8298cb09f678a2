"""One meter is in two power logs.

## What it does
Looks for one device, or one machine's meter, in two power logs of a run, which is added once; and for two logs with
identical readings, which are both added.

## Why it matters
Two ranks on one node may each record the node's accelerators. And a copied log takes the place of a node that no one
metered.

## Example
node_1.txt is a copy of node_0.txt with another host in its first line.

## Instead
One power log per node, each written on its node.

## Source
`tta`'s. In each of the five published runs of MLPerf Training v4.0's 8-node resnet with power, the files of two nodes
are identical byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.energy.accounting import ALREADY_COUNTED
from harness.energy.reasons import VoidReason
from harness.findings import Fault
from harness.log.power_format import NodePower, Sample
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, voided

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in voided(result, ruleset, VoidReason.COUNTED_TWICE, VoidReason.SAME_TRACE):
        doubled = [item for item in run.energy.excluded if item[2].startswith(ALREADY_COUNTED)]
        if doubled:
            node, meter, why = doubled[0]
            yield Fault(
                run.path(node),
                None,
                f"{meter} was {why}; it is added once; {NOT_RANKED}",
                {"num_meters": len(doubled)},
            )
        if VoidReason.SAME_TRACE in run.energy.void:
            name, message = _twins(run.log.nodes)
            yield Fault(run.path(name), None, f"{message}; {NOT_RANKED}")


def _twins(nodes: Sequence[NodePower]) -> tuple[str | None, str]:
    """The first log with the readings of another log's meter, and the message; None if they have different clocks."""
    seen: dict[tuple[Sample, ...], str] = {}
    traces = ((samples, node.node) for node in nodes for samples in node.samples.values() if len(samples) > 1)
    twins = (
        (name, f"it has exactly the times and readings of {first}")
        for samples, name in traces
        if (first := seen.setdefault(samples, name)) != name
    )
    return next(twins, (None, "two of the logs have exactly the same times and readings once they are on one clock"))
