"""Not every device of a node was metered.

## What it does
Where a run's energy is a sum of components (classes C and D), counts the accelerators and the processors that were
metered on every node, and compares them with `accelerators_per_node` and, where a processor was metered at all, with
`host_processors_per_node`.

## Why it matters
The sum of seven accelerators of eight is an eighth smaller, and nothing in it shows that one is missing.

## Example
Eight accelerators are described; the power log of node_0 has the counters of seven.

## Instead
Meter all of them, or the node as a whole.

## Source
MLPerf training rules, power measurement: all accelerators and hosts of a run are metered.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.energyfaults import metered
from harness.findings import Fault
from harness.power import NodePower
from harness.prices import whole_number
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runenergy import EnergyPart
from harness.submission import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    system = result.system or {}
    for run in metered(result, ruleset):
        if run.energy.meter_class not in ("C", "D"):
            continue
        for node in (node for node in run.log.nodes if not node.is_switch):
            parts = [part for part in run.energy.parts if part.node == node.node]
            for name, component in (("accelerators_per_node", "gpu"), ("host_processors_per_node", "cpu_package")):
                described, found = whole_number(system.get(name)), _number(node, parts, component)
                is_asked = component == "gpu" or found > 0
                if described is not None and is_asked and found < described:
                    yield Fault(
                        str(node.path),
                        None,
                        f"{found} of {described} were metered ({name} of the description)",
                        {"described": described, "metered": found},
                    )


def _number(node: NodePower, parts: list[EnergyPart], component: str) -> int:
    """Devices of a kind that were metered; a meter that names no device is of one."""
    return len({node.specs[part.meter].device or part.meter for part in parts if part.component == component})
