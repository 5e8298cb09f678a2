"""Two logs that are not the same file are of the same run.

## What it does
Compares, over all logs under audit, the milliseconds from each line of the course to the next, and the values of the
evaluations with all their digits.

## Why it matters
A copy with another seed, another number, other line numbers or a shifted date is still a copy. No two runs take the
same milliseconds forty times, and no two seeds give the same curve.

## Example
result_4.txt is result_1.txt with another seed and a day added to each time.

## Instead
Make the run that is missing.

## Source
facts of published rounds: copies of a log with changed line numbers pass MLPerf's seed check.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.auditing.facts import Tree, grouped
from harness.auditing.suspicion import SignalRule, Trace, trace

SCOPE = "tree"
LIMITS = ()
KINDS = {
    "times": "the milliseconds between the lines of its course are those of",
    "curve": "the values of its evaluations are those of",
    "values": "all its keys and values but the seed are those of",
}


def check(tree: Tree, rule: SignalRule) -> Iterator[Trace]:
    told: set[object] = set()
    for name, words in KINDS.items():
        for group in grouped(tree.runs, name):
            for run in group[1:]:
                other = next((one for one in group if one.path != run.path and one.sha256 != run.sha256), None)
                if other is not None and run.path not in told:
                    told.add(run.path)
                    yield trace(run.path, None, f"{words} {other.path}", 1.0, kind=name)
