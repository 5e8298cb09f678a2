"""The runs of a result used different data.

## What it does
Where the rules name no digest, compares the digest in `tta_data` over the runs of a result.

## Why it matters
If the organiser cannot publish a digest of the data, the runs must at least have used the same data.

## Example
Four runs with digest 3f2a…, the fifth with 91bc….

## Instead
Prepare the data once, and do not touch it between runs.

## Source
MLPerf training rules, "Data Set".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.log import keys
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    if rules is None or rules.data_digest is not None:
        return
    digests = [(log, digest) for log in result.runs if isinstance(digest := log.field(keys.TTA_DATA, "digest"), str)]
    for log, digest in digests:
        if digest != digests[0][1]:
            yield Fault(
                str(log.path),
                log.line_of(keys.TTA_DATA),
                f"the data has the digest {printable(digest[:12])}…; "
                f"in {digests[0][0].path.name} it is {printable(digests[0][1][:12])}…",
            )
