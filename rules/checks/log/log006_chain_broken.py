"""A line was changed, added or removed after the log was written.

## What it does
Compares `prev` of every line with the SHA-256 of the line before.

## Why it matters
The chain shows damage and casual edits with their line. It is no signature: whoever writes the whole log anew can chain
it anew, which is why the other checks look at what the lines say.

## Example
`eval_accuracy` on line 40 changed from 0.89 to 0.91: line 41 does not follow from it any more.

## Instead
Hand in the log as it was written.

## Source
The chain: harness/log/events.py. MLPerf logs have none, and none of 18 edits of a published log was noticed by its
checker.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for defect in log.defects_of("chain"):
        yield Fault(str(log.path), defect.lineno, defect.message)
