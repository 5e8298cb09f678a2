"""Caches were cleared after the clock had started.

## What it does
Expects the first `cache_clear` to be before the first `run_start`, in the file or in time.

## Why it matters
Caches are cleared so that no run reads from memory what it should read from storage; afterwards it has no effect.

## Example
`cache_clear` after `run_stop`.

## Instead
Clear the caches before initialisation.

## Source
Not a rule of MLCommons' compliance checker, which passes a log changed in this way; see
docs/reports/mlperf-agreement.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    clear, start = log.first(keys.CACHE_CLEAR), log.first(keys.RUN_START)
    if clear is not None and start is not None and clear.lineno > start.lineno and clear.time_ms > start.time_ms:
        message = f"the first cache_clear is {(clear.time_ms - start.time_ms) / 1e3:.1f} s after run_start"
        yield Fault(str(log.path), clear.lineno, message)
