"""The equivalence of a reimplementation was measured over too few steps, or from too few seeds.

## What it does
Compares the steps in `tta_equivalent` with `equivalence_steps` of the rules, and wants two different seeds.

## Why it matters
The first step shows neither momentum nor a schedule nor what accumulates; a single seed shows one set of weights.

## Example
The rules ask for 100 steps, and 10 were made.

## Instead
Make the runs with `tta run --equivalent FILE`, which takes the number from the rules.

## Source
docs/explanation/reproduction.md, "The same mathematics".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.equivalence import NUM_SEEDS, equivalence_of
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if (found := equivalence_of(log)) is None:
        return
    line = log.line_of(keys.TTA_EQUIVALENT)
    if rules is not None and found.num_steps < rules.equivalence_steps:
        message = f"the module was compared over {found.num_steps} steps; the rules ask for {rules.equivalence_steps}"
        yield Fault(str(log.path), line, message)
    if len(set(found.seeds)) < NUM_SEEDS:
        message = f"the module was compared from {len(set(found.seeds))} different seeds; {NUM_SEEDS} are needed"
        yield Fault(str(log.path), line, message)
