"""Two meters that see the same thing disagree.

## What it does
Compares the views of one device (a counter and sampled power) within 10 %, and the sum of a node's components with the
node; and reports if the better of two meters gave nothing and the other was used.

## Why it matters
One of the two is wrong, and the logs do not say which.

## Example
187 J by the counter and 327 J by sampled power of one idle accelerator; processors that draw more than their node.

## Instead
Find out which meter is wrong, and leave it out.

## Source
zeus, issue 181 (the 187 and 327 J).
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.energy.reasons import EnergyFlag
from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import flagged

SCOPE = "result"
_FLAGS = tuple(flag for flag in EnergyFlag if flag.code == "PWR018")


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in flagged(result, ruleset, *_FLAGS):
        found = [flag.words(ruleset.energy) for flag in run.energy.flags if flag in _FLAGS]
        yield Fault(run.path(), None, "; ".join(found))
