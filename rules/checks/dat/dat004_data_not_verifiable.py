"""The rules name no digest of the data.

## What it does
Notes a benchmark without `data_digest`: the data are compared between the runs only.

## Why it matters
Whether these are the data of the reference cannot be verified from the log.

## Example
A data set whose licence forbids to prepare it centrally, with a preparation that depends on a library's version.

## Instead
The organiser publishes the digest of a prepared copy, as soon as there is one.

## Source
This ruleset: `data_digest` of the benchmark.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import events as key
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is not None and rules.data_digest is None:
        yield Fault(
            str(log.path),
            log.line_of(key.TTA_DATA),
            f"the rules of {rules.name} name no digest of the data; that these are the right ones is not verified",
        )
