"""A key that the round requires is not in the log.

## What it does
Counts the lines of every key that the round requires for this division and benchmark, and of groups of keys of which
one is required. If lines cannot be read, all missing keys are one finding, since such a line may hold them.

## Why it matters
What is not logged cannot be checked.

## Example
No `run_stop`: the log was cut off, or the run did not end.

## Instead
Log the key. A run whose log was cut off did not converge.

## Source
The rule files of MLCommons' compliance checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.mlperf import compliance
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"
MAX_NAMED = 5


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if ruleset.round is None:
        return
    faults = compliance.faults(log, ruleset.round, "missing")
    if faults and log.num_unread:
        yield _one_fault([" or ".join(fault.evidence["keys"]) for fault in faults], log)
    else:
        yield from faults


def _one_fault(keys: list[str], log: RunLog) -> Fault:
    """One finding for all missing keys, since unreadable lines may hold them."""
    num_keys, num_unread = len(keys), log.num_unread
    named = f"{', '.join(keys[:MAX_NAMED])}{f' and {num_keys - MAX_NAMED} more' if num_keys > MAX_NAMED else ''}"
    of_keys = "1 key" if num_keys == 1 else f"{num_keys} keys"
    lines = "1 line" if num_unread == 1 else f"{num_unread:,} lines"
    held = "it" if num_keys == 1 else "them" if num_unread >= num_keys else "some of them"
    message = f"too few readable lines of {of_keys} that the round requires: {named}; "
    message += f"{lines} cannot be read (MLP001) and may hold {held}"
    return Fault(str(log.path), None, message, {"keys": keys, "num_unread": num_unread})
