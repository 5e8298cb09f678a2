"""The devices that trained are not those of the system description.

## What it does
Compares the devices and hosts in `tta_world` with `accelerators_per_node` and `number_of_nodes`.

## Why it matters
Describing one node and training on two halves the apparent time per device.

## Example
The description says no accelerators; rank 0 trained on cuda:0.

## Instead
Describe the system that the runs use; run `tta doctor` on each kind of node.

## Source
MLPerf submission rules, system description. Node counts in published descriptions differ from their directories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from harness.base.values import int_of_digits
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if result.system is None:
        return
    nodes = int_of_digits(result.system.get("number_of_nodes"))
    per_node = int_of_digits(result.system.get("accelerators_per_node"))
    for log in result.runs:
        ranks = timeline.ranks(log)
        hosts = Counter(str(rank.get("host")) for rank in ranks)
        on_accelerators = Counter(
            str(rank.get("host")) for rank in ranks if str(rank.get("device", "cpu")).partition(":")[0] != "cpu"
        )
        fault = None
        if nodes is not None and ranks and len(hosts) != nodes:
            fault = f"the ranks ran on {len(hosts)} hosts; number_of_nodes is {nodes}"
        elif per_node is not None and any(num_ranks > per_node for num_ranks in on_accelerators.values()):
            fault = (
                f"{max(on_accelerators.values())} ranks on one host used accelerators; "
                f"accelerators_per_node is {per_node}"
            )
        if fault is not None:
            yield Fault(str(log.path), log.line_of(keys.TTA_WORLD), fault)
