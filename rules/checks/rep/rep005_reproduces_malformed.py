"""The runs of a result do not say alike which result they repeat.

## What it does
Reads `tta_reproduces` in each log: the digest of the logs of another result. All runs of a result have the same, or
none.

## Why it matters
A leaderboard shows a reproduction next to what it repeats. Runs that repeat different results, or only some of which
repeat one, were put together afterwards.

## Example
result_0.txt repeats 5d41…, result_1.txt nothing.

## Instead
Submit the folder that `tta reproduce` has made, as it is.

## Source
docs/explanation/reproduction.md, "A reproduction is a result".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    stated = [(log, log.field(keys.TTA_REPRODUCES, "digest")) for log in result.runs]
    for log, digest in stated:
        if log.first(keys.TTA_REPRODUCES) is not None and not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
            line, shown = log.line_of(keys.TTA_REPRODUCES), printable(digest, 60)
            yield Fault(str(log.path), line, f"repeats {shown!r}, which is not the digest of a result")
            return
    for log, digest in stated[1:]:
        first, other = stated[0]
        if digest != other:
            repeats, before = (printable(item, 60)[:12] if item is not None else "nothing" for item in (digest, other))
            message = f"repeats {repeats}, and {first.path.name} {before}: these runs do not belong together"
            yield Fault(str(log.path), log.line_of(keys.TTA_REPRODUCES), message)
            return
