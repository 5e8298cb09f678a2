"""The code that ran is not that of a release.

## What it does
Compares the digest in `tta_code` with those of the releases in the rules' folder `releases/`, and names the files that
differ from the nearest one. Where the ruleset has `code: released`, IDN003 reports this instead.

## Why it matters
An edited workload or referee is visible only by comparison with one that others know. A fresh checkout is unreleased
code, too: that is no fault, but worth a look at what differs.

## Example
unreleased code, commit 1a2b3c4 with changes: differs from release 0.2.0: changed: workloads/translation/workload.py.

## Instead
Run a released version, or have the organiser release the code that you ran.

## Source
docs/explanation/integrity.md, "What ran"; docs/how-to/operate-a-leaderboard.md.
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
    if found.num_log is not None and found.state == "unreleased" and not ruleset.requires_release:
        log = result.runs[found.num_log]
        yield Fault(str(log.path), log.line_of(keys.TTA_CODE), found.sentence, found.record())
