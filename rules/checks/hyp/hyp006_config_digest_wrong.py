"""A configuration does not have the digest stated with it.

## What it does
Computes the SHA-256 of the canonical JSON of `tta_config` and `tta_resolved` and compares it with `metadata.digest`.

## Why it matters
The digest is what other pages quote. A value that was changed afterwards shows here even if the chain was rebuilt.

## Example
global_batch_size in `tta_config` was changed from 128 to 256, and the digest left unchanged.

## Instead
Submit the log as it was written.

## Source
The vocabulary: harness/log/keys.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.events import digest_of
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet

SCOPE = "log"


def check(log: RunLog, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for event in (*log.all(keys.TTA_CONFIG), *log.all(keys.TTA_RESOLVED)):
        stated, derived = event.metadata.get("digest"), digest_of(event.value)
        if isinstance(stated, str) and stated != derived:
            yield Fault(
                str(log.path),
                event.lineno,
                f"{event.key} has the digest {derived[:12]}…; the log states {printable(stated[:12])}…",
            )
