"""A key that must stand once stands there more often, with one value.

## What it does
Counts the lines of every key that must stand once.

## Why it matters
Many processes writing the same line is untidy, no contradiction. Not so for the keys that bound the run: see MLP022.

## Example
`submission_org` on 8 lines, one a process.

## Instead
Log from one process.

## Source
MLCommons' compliance checker warns of this.
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
        yield from compliance.faults(log, ruleset.round, "doubled")
