"""The rules name no digest of the data.

## What it does
Reports a benchmark without `data_digest`: the data is only compared between the runs.

## Why it matters
The log cannot show whether this is the reference's data.

## Example
A data set whose licence forbids preparing it centrally, with a preparation that depends on a library's version.

## Instead
The organiser publishes the digest of a prepared copy as soon as there is one.

## Source
The ruleset: `data_digest` of the benchmark.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is not None and rules.data_digest is None:
        yield Fault(
            str(log.path),
            log.line_of(keys.TTA_DATA),
            f"the rules of {rules.name} name no digest of the data; whether it is the right data was not verified",
        )
