"""The worker was isolated less than the rules require.

## What it does
Where the ruleset has `isolation: full`: compares `tta_isolation` with full isolation. The worker sees the files that it
needs and no others, no process but its own, and no network but loopback; it sees the data from `start` on; it gains no
privileges; and the referee cannot be traced.

## Why it matters
A worker that reaches the referee can slow its clock, and one that reads the results or the data before its time can
prepare for them.

## Example
`isolation: full`, and a log with `"data": "from the beginning"` in `tta_isolation`.

## Instead
Run where `tta doctor` reports full isolation, with `tta run --isolation full`; bubblewrap is the simplest way to it.

## Source
The setting `isolation` of rules/*/ruleset.yaml; harness/log/isolation.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import isolation, keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    value = log.value(keys.TTA_ISOLATION)
    if ruleset.requires_isolation and value is not None and (gaps := list(isolation.gaps(value))):
        message = f"the rules require full isolation; the worker had {printable(', '.join(gaps), 300)}"
        yield Fault(str(log.path), log.line_of(keys.TTA_ISOLATION), message)
