"""The data may have been in memory when the run began.

## What it does
Looks whether `cache_clear` is true: whether the operating system was asked to forget every file of the data, and
whether it forgot as many as `tta_data` has.

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

from harness.findings import Fault
from harness.log import events as key
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    event, has = log.first(key.CACHE_CLEAR), log.field(key.TTA_DATA, "num_files")
    if event is None:
        return
    cleared = event.metadata.get("num_files")
    if event.value is False:
        yield Fault(str(log.path), event.lineno, "the data were not cleared from the operating system's cache")
    elif isinstance(cleared, int) and isinstance(has, int) and cleared < has:
        told = f"{cleared} of {has} data files were cleared from the operating system's cache"
        yield Fault(str(log.path), event.lineno, told)
