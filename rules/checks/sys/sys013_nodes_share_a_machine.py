"""Several nodes of a run were one machine.

## What it does
Counts the boot ids in `tta_launch`, of which a running kernel has one, and compares with the number of nodes.

## Why it matters
Two nodes on one machine share its memory and its links. They are no system of two nodes, whatever its description, its
power and its price say.

## Example
A run of `--launcher local` with two nodes, or of two containers that a scheduler had put on one host.

## Instead
Describe the machine as one node and use `--devices` for all its accelerators.

## Source
random(4): /proc/sys/kernel/random/boot_id. MLPerf submission rules, system description.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from rules.checks.sys._nodes import nodes_of

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    by_machine: dict[str, list[str]] = defaultdict(list)
    for node in nodes_of(log):
        if isinstance(boot_id := node.get("boot_id"), str):
            by_machine[boot_id].append(printable(node.get("node"), 20))
    for numbers in by_machine.values():
        if len(numbers) > 1:
            message = f"the nodes {', '.join(numbers)} are one machine: they have the same boot id"
            yield Fault(str(log.path), log.line_of(keys.TTA_LAUNCH), message)
