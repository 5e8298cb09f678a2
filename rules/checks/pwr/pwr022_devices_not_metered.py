"""Not every device of a node was metered.

## What it does
Where a node's energy is a sum of components, counts the accelerators and the processors that were metered, whatever
class their meters say they have, and compares them with `accelerators_per_node` and, where a processor was metered at
all, with `host_processors_per_node`. What is modelled was not metered. A node that was metered as a whole, a Jetson by
its own sensor, is asked for nothing. Where some accelerators were metered and not all, the energy
is not ranked (`devices_missing`).

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

from harness.energy.plausibility import missing_devices
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import NOT_RANKED, metered

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in metered(result, ruleset):
        for found in missing_devices(run.energy.parts, run.log.nodes, result.system or {}):
            void = f"; {NOT_RANKED}" if found.voids else ""
            yield Fault(
                str(found.node.path),
                None,
                f"{found.metered} of {found.described} were metered ({found.name} of the description){void}",
                {"described": found.described, "metered": found.metered},
            )
