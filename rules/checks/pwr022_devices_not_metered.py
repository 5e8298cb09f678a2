"""Not every device of a node was metered.

## What it does
Where a node's energy is a sum of components, counts the accelerators and the processors that were metered, whatever
class their meters say they have, and compares them with `accelerators_per_node` and, where a processor was metered at
all, with `host_processors_per_node`. What is modelled was not metered. A node that was metered as a whole, a Jetson by
its own sensor, is asked for nothing.

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
from harness.meterchoice import PARTS
from harness.power import NodePower
from harness.prices import whole_number
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runenergy import EnergyPart
from harness.submission import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    system = result.system or {}
    for run in metered(result, ruleset):
        for node in (node for node in run.log.nodes if not node.is_switch):
            devices: list[str] = [part.component for part in run.energy.parts if _is_metered(part, node)]
            for name, component in (("accelerators_per_node", "gpu"), ("host_processors_per_node", "cpu_package")):
                described, found = whole_number(system.get(name)), devices.count(component)
                is_asked = found > 0 or (component == "gpu" and devices)
                if described is not None and is_asked and found < described:
                    yield Fault(
                        str(node.path),
                        None,
                        f"{found} of {described} were metered ({name} of the description)",
                        {"described": described, "metered": found},
                    )


def _is_metered(part: EnergyPart, node: NodePower) -> bool:
    """Whether a meter of the node's adds a device of it to the energy; there is one such part a device."""
    return part.node == node.node and part.component in PARTS and part.meter_class != "E"
