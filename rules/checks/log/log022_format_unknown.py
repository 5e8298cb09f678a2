"""A log has a format that this version does not read.

## What it does
Compares `version` in `tta_format` with the format version of this harness.

## Why it matters
Another format may use the same key for something else, or lack what the checks look at; judging it would be guesswork.

## Example
`tta_format` says version 1; this harness reads version 2.

## Instead
Check the log with the harness that wrote it, or make the runs again.

## Source
The vocabulary: harness/log/keys.py, FORMAT_VERSION.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    version = log.field(keys.TTA_FORMAT, "version")
    if isinstance(version, int) and version != keys.FORMAT_VERSION:
        message = f"the log has format version {version}; this harness reads version {keys.FORMAT_VERSION}"
        yield Fault(str(log.path), log.line_of(keys.TTA_FORMAT), message)
