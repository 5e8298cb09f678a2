"""One meter stands in two power logs.

## What it does
Looks for one device, or one machine's meter, in two power logs of a run, which is added once; and for two logs with
the very same readings, which are added as they stand.

## Why it matters
Two ranks on one node each write down the node's accelerators. And a log that is copied stands for a node that nobody
metered.

## Example
node_1.txt is a copy of node_0.txt with another host in its first line.

## Instead
One power log a node, each written on its node.

## Source
Ours. In each of the five published runs of MLPerf Training v4.0's 8-node resnet with power, the files of two nodes are
the same byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.findings import Fault
from harness.log.power_format import NodePower, Sample
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, voided

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in voided(result, ruleset, "counted_twice", "same_trace"):
        doubled = [item for item in run.energy.excluded if item[2].startswith("counted already")]
        if doubled:
            node, meter, why = doubled[0]
            yield Fault(
                run.path(node),
                None,
                f"{meter} was {why}; it is added once; {NOT_RANKED}",
                {"num_meters": len(doubled)},
            )
        if "same_trace" in run.energy.void:
            name, told = _twins(run.log.nodes)
            yield Fault(run.path(name), None, f"{told}; {NOT_RANKED}")


def _twins(nodes: Sequence[NodePower]) -> tuple[str | None, str]:
    """The first log with the readings of another's meter, and what to say of it; None: their clocks are two kinds."""
    seen: dict[tuple[Sample, ...], str] = {}
    traces = ((samples, node.node) for node in nodes for samples in node.samples.values() if len(samples) > 1)
    twins = (
        (name, f"it has the very same times and readings as {first}")
        for samples, name in traces
        if (first := seen.setdefault(samples, name)) != name
    )
    return next(twins, (None, "two of them have the very same times and readings, once they lie on one clock"))
