"""A run used different data from those the rules name.

## What it does
Compares the digest in `tta_data`, computed over all prepared files before the run, with `data_digest` of the benchmark.

## Why it matters
A different data set is a different benchmark: fewer or easier examples train faster.

## Example
One class of the training images was left out, so the digest differs.

## Instead
`tta data prepare` makes the data that the rules name; delete existing data if it was changed.

## Source
MLPerf training rules, "Data State at Start of Run": a script verifies the data set by its checksum.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    digest = log.field(keys.TTA_DATA, "digest")
    if rules is None or rules.data_digest is None or not isinstance(digest, str):
        return
    if digest != rules.data_digest:
        yield Fault(
            str(log.path),
            log.line_of(keys.TTA_DATA),
            f"the data has the digest {printable(digest[:12])}…; the rules name {rules.data_digest[:12]}…",
        )
