"""The initialised tensors are not those of the model.

## What it does
Compares the names in the metadata of all lines of a key with the round's list: in any order, each exactly once.

## Why it matters
Rounds up to 1.1 require a line for every randomly initialised tensor, so that none starts out trained.

## Example
`weights_initialization` for 21 tensors of a Mask R-CNN, without `RPNHead_cls`.

## Instead
Initialise every tensor as the reference does, and log it.

## Source
The rule files of MLCommons' compliance checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is not None:
        yield from compliance.faults(log, ruleset.round, "list")
