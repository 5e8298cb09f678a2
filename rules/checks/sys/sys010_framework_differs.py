"""The described framework is not the one that ran.

## What it does
Looks for the version of torch that the ranks report in `tta_world` in the description's `framework`, ignoring what
follows a plus sign in a version.

## Why it matters
Readers compare frameworks by that field; a result made with a newer one should not be credited to the older one.

## Example
`framework` is "PyTorch 2.14.1", but rank 0 ran with 2.15.0.

## Instead
Describe the machine again after an update: `tta doctor --out FILE`.

## Source
MLPerf submission rules, system description: `framework` has its version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.log.run_log import RunLog
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.scoring import timeline
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    described = (result.system or {}).get("framework")
    if not isinstance(described, str):
        return
    for log in result.runs:
        for version in _versions(log):
            if not re.search(rf"(?<![0-9.]){re.escape(version)}(?![0-9]|\.[0-9])", described):
                message = (
                    f"the run used torch {printable(version, 40)}; the description says {printable(described, 80)!r}"
                )
                yield Fault(str(log.path), log.line_of(keys.TTA_WORLD), message)
                break


def _versions(log: RunLog) -> Iterator[str]:
    """The versions of torch that the ranks report."""
    for rank in timeline.ranks(log):
        versions = rank.get("versions")
        version = versions.get("torch") if isinstance(versions, dict) else None
        if isinstance(version, str):
            yield version.partition("+")[0]
