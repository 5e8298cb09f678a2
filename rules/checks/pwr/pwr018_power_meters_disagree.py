"""Two meters that see the same thing disagree.

## What it does
Compares the views of one device (a counter and sampled power) within 10 %, and the sum of a node's parts with the node;
and tells where the better of two meters gave nothing, and the other was taken.

## Why it matters
One of the two is wrong, and which of them nobody can say from here.

## Example
187 J by the counter and 327 J by sampled power of one idle accelerator; processors that draw more than their node.

## Instead
Find out which is wrong, and leave it out.

## Source
zeus, issue 181 (the 187 and 327 J).
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.result import Result
from rules.checks.pwr._metered import flagged

SCOPE = "result"
_WORDS = {
    "disagree": "two meters of one device differ by more than 10 %",
    "parts_exceed_whole": "the parts of a node drew more than the node",
    "fallback": "the better meter of a device or node gave no joules; another was taken",
}


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    for run in flagged(result, ruleset, *_WORDS):
        found = [_WORDS[flag] for flag in run.energy.flags if flag in _WORDS]
        yield Fault(run.path(), None, "; ".join(found))
