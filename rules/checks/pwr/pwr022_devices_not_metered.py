"""Not every device of a node was metered.

## What it does
If a node's energy is a sum of components, counts the metered accelerators and processors, whatever the class of their
meters, and compares them with `accelerators_per_node` and, if any processor was metered, with
`host_processors_per_node`. What is modelled was not metered. A node metered as a whole, such as a Jetson by its own
sensor, is exempt. If some but not all accelerators were metered, the energy is not ranked (`devices_missing`).

## Why it matters
The sum of seven accelerators out of eight is an eighth smaller, and nothing in it shows that one is missing.

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
                f"{found.metered} of {found.described} were metered ({found.name} of the system description){void}",
                {"described": found.described, "metered": found.metered},
            )
