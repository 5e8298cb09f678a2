"""A log in a submitter's results is not in the folder of a result.

## What it does
Looks where a log is that is judged by itself: below `results/`, next to which there is `systems/`, but not directly in
results/<system>/<benchmark>.

## Why it matters
Only the log is judged. Whether it is one of enough runs, whether they converge as the reference does, and what they
ran on is asked of results alone.

## Example
`results/attempts/box/resnet/result_a.txt`, one folder too deep.

## Instead
Put the logs of a result into results/<system>/<benchmark>.

## Source
MLPerf submission rules, "Submission directory structure".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.findings import Fault
from harness.ruleset.model import BenchmarkRules, RuleSet
from harness.submission.layout import RESULTS, SYSTEMS, is_result_place
from harness.submission.result import Result

SCOPE = "result"


def check(result: Result, rules: BenchmarkRules | None, ruleset: RuleSet) -> Iterator[Fault]:
    place = result.path.absolute().parent
    if ruleset.round is None or result.kind != "log" or is_result_place(place):
        return
    if any(folder.name == RESULTS and (folder.parent / SYSTEMS).is_dir() for folder in (place, *place.parents)):
        message = "the log is judged by itself: it is in a submitter's results, but not in results/<system>/<benchmark>"
        yield Fault(str(result.path), None, message)
