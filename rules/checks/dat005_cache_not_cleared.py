"""The data may have been in memory when the run began.

## What it does
Looks whether `cache_clear` is true: whether the operating system was asked to forget every file of the data.

## Why it matters
The first pass over data that are in memory already is faster than any disk.

## Example
`cache_clear` is false: the file system refused, or the files are on a RAM disk.

## Instead
Keep the data on durable storage, readable by the user who runs.

## Source
MLPerf training rules, "Data State at Start of Run": flush the cache or restart; storage excludes RAM.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness import events as key
from harness.findings import Fault
from harness.ruleset import BenchmarkRules, RuleSet
from harness.runlog import RunLog

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if log.value(key.CACHE_CLEAR) is False:
        line = log.line_of(key.CACHE_CLEAR)
        yield Fault(str(log.path), line, "the data were not cleared from the operating system's cache")
