"""A submission is in a different place from the one its claim implies.

## What it does
Compares the folders `<submitter>/results/<system>/<benchmark>` with the claim. A reproduction is in
`<benchmark>-again-<first 12 digits of what it repeats>`, or in `<benchmark>`.

## Why it matters
People and tools find a result by its place. A result in another's folder looks like another's result.

## Example
A claim of the system box1 in results/box2/.

## Instead
`tta submit --to TREE` puts it in its place.

## Source
MLPerf submission rules, directory structure.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import printable
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import result_name
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    claim = result.claim
    if claim is None:
        return
    place = result.path.absolute().parts[-4:]
    claimed_place = (claim.submitter, "results", claim.system, claim.benchmark)
    again = (*claimed_place[:3], result_name(claim.benchmark, result.repeats))
    if place not in (claimed_place, again):
        yield Fault(
            str(result.path),
            None,
            f"the submission is in {printable('/'.join(place))}; by its claim it belongs in "
            f"{printable('/'.join(claimed_place))}",
        )
