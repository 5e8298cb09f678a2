"""A key that may occur once is repeated with the same value.

## What it does
Counts the lines of every key that may occur only once.

## Why it matters
Many processes writing the same line is untidy but not a contradiction. This does not hold for the keys that bound the
run: see MLP022.

## Example
`submission_org` on 8 lines, one per process.

## Instead
Log from one process.

## Source
MLCommons' compliance checker warns about this.
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
