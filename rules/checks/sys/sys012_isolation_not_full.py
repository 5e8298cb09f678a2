"""The worker was not fully isolated.

## What it does
Compares `tta_isolation` with full isolation (see SYS011), where the ruleset does not require that.

## Why it matters
What a module of the open division could have reached is part of what its result is worth. A worker without isolation is
no fault of the submitter: not every machine permits namespaces.

## Example
A run in a container that forbids namespaces: `"means": "landlock"`, `"data": "from the beginning"`.

## Instead
`tta doctor` says what the machine permits, and what is missing for more.

## Source
harness/log/isolation.py.
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
    is_relevant = keys.TTA_ISOLATION in log.counts and not ruleset.requires_isolation
    if gaps := list(isolation.gaps(log.value(keys.TTA_ISOLATION))) if is_relevant else []:
        message = f"the worker was not fully isolated: {printable(', '.join(gaps), 300)}"
        yield Fault(str(log.path), log.line_of(keys.TTA_ISOLATION), message)
