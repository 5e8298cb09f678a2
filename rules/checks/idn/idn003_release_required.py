"""The rules require released code, and other code ran.

## What it does
Where the ruleset has `code: released`: reports a result whose logs name code that is not among the releases in the
rules' folder `releases/`, or name none. The files that differ from the nearest release are named.

## Why it matters
Where results are compared for a prize, each must have been made with code that everyone can read.

## Example
unreleased code, commit 1a2b3c4: differs from release 0.2.0: changed: workloads/translation/workload.py.

## Instead
Make the runs again with a released version.

## Source
The setting `code` of rules/*/ruleset.yaml; docs/how-to/operate-a-leaderboard.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.ruleset.releases import code_verdict
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    found = code_verdict(result, ruleset.releases)
    if ruleset.requires_release and result.runs and found.state != "released":
        message = f"the rules require the code of a release: {found.sentence}"
        if found.num_log is None:
            yield Fault(str(result.path), None, message, found.record())
        else:
            log = result.runs[found.num_log]
            yield Fault(str(log.path), log.line_of(keys.TTA_CODE), message, found.record())
