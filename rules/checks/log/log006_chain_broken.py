"""A line was changed, added or removed after the log was written.

## What it does
Compares `prev` on every line with the SHA-256 of the line before.

## Why it matters
The chain reveals damage and casual edits, and on which line. It is not a signature: anyone who rewrites the whole log
can also rebuild the chain, which is why the other checks look at what the lines say.

## Example
`eval_accuracy` on line 40 was changed from 0.89 to 0.91: line 41 no longer follows from it.

## Instead
Submit the log as it was written.

## Source
The chain: harness/log/events.py. MLPerf logs have none, and its checker noticed none of 18 edits of a published log.
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
