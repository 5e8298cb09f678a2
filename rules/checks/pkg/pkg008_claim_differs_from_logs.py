"""The claim contradicts the logs.

## What it does
Compares benchmark, division, submitter, system and ruleset of the claim with every log.

## Why it matters
The board shows what is claimed; what ran is in the logs.

## Example
The claim says division closed, the logs say open.

## Instead
Let `tta submit` write the claim from the logs.

## Source
MLPerf submission rules. MLPerf's package checker compares no log with its directory.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.base.files import line_of
from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import CLAIM_NAME
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    claim = result.claim
    if claim is None:
        return
    for log in result.runs:
        facts = (
            ("benchmark", claim.benchmark, log.value(keys.SUBMISSION_BENCHMARK)),
            ("division", claim.division, log.value(keys.SUBMISSION_DIVISION)),
            ("submitter", claim.submitter, log.value(keys.SUBMISSION_ORG)),
            ("system", claim.system, log.field(keys.TTA_SYSTEM, "name")),
            ("ruleset", claim.ruleset, log.field(keys.TTA_RULES, "ruleset")),
        )
        for what, claimed, logged in facts:
            if isinstance(logged, str) and logged != claimed:
                place = result.path / CLAIM_NAME
                yield Fault(
                    str(place),
                    line_of(place, what),
                    f"the claim's {what} is {printable(claimed, 60)!r}; {log.path.name} says {printable(logged, 60)!r}",
                )
