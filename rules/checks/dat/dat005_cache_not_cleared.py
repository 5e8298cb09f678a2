"""The data may have been in memory when the run began.

## What it does
Expects `cache_clear` to be true, that is, the operating system was asked to evict every data file from its cache, and
the number of files evicted to be the number in `tta_data`.

## Why it matters
A first pass over data that is already in memory is faster than any disk.

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
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    event, has = log.first(keys.CACHE_CLEAR), log.field(keys.TTA_DATA, "num_files")
    if event is None:
        return
    cleared = event.metadata.get("num_files")
    if event.value is False:
        yield Fault(str(log.path), event.lineno, "the data was not cleared from the operating system's cache")
    elif isinstance(cleared, int) and isinstance(has, int) and cleared < has:
        message = f"{cleared} of {has} data files were cleared from the operating system's cache"
        yield Fault(str(log.path), event.lineno, message)
