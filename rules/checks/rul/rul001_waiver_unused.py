"""A waiver in the ruleset excuses nothing.

## What it does
Looks at each waiver whose path covers some part of the result, and expects a finding of its code there that it has
excused. Waivers for other results are left alone.

## Why it matters
A waiver is a hole in the rules, made for one case. When that case is gone, or the waiver has expired, the hole should
be closed.

## Example
A waiver of LOG017 for acme/results/box1/toy_mini, whose log was replaced by one without that fault.

## Instead
The ruleset's owner removes the waiver.

## Source
Waivers belong to the ruleset, with who, why and until when: rules/*/ruleset.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from harness.errors import printable
from harness.findings import Fault, Finding
from harness.ruleset import waivers
from harness.ruleset.model import RuleSet
from harness.submission.result import Result

SCOPE = "judgement"


def check(result: Result, findings: Sequence[Finding], ruleset: RuleSet, today: date) -> Iterator[Fault]:
    places = {str(result.path), *(finding.path for finding in findings)}
    places |= {str(result.path / name) for name in result.files}
    tree = waivers.tree_of(result.path)
    for number, waiver in enumerate(ruleset.waivers):
        if not any(waivers.covers(waiver, tree, place) for place in places):
            continue
        fitting = [item for item in findings if waivers.fits(waiver, tree, item.code, item.path)]
        if waiver.until < today.isoformat():
            why = f"it expired after {waiver.until}"
        elif not fitting:
            why = f"there is no {printable(waiver.code, 20)} there"
        else:
            continue
        yield Fault(
            f"rules/{ruleset.version}/ruleset.yaml",
            None,
            f"waivers[{number}] ({printable(waiver.code, 20)} at {printable(waiver.path, 80)}) excuses nothing: {why}",
        )
