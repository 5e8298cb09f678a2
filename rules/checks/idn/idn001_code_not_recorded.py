"""A log does not say what code ran.

## What it does
Looks for `tta_code` in the logs of a result. Those of format version 1 do not have it; LOG011 requires it of the
others.

## Why it matters
What is not named cannot be compared with a release, nor between runs.

## Example
Logs from before `tta` wrote that line, or logs from which it was taken.

## Instead
Make the runs again with a present version of `tta`.

## Source
harness/log/keys.py; docs/explanation/integrity.md, "What ran".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    logs = [log for log in result.runs if log.counts and not log.is_foreign]  # an empty log is LOG011's
    silent = [log.path.name for log in logs if keys.TTA_CODE not in log.counts]
    if silent:
        message = f"{len(silent)} of {len(logs)} logs do not say what code ran, the first is {silent[0]}"
        yield Fault(str(result.path), None, message, {"num_logs": len(silent)})
