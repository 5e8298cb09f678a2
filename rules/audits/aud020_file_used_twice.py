"""One log stands in a tree under two names.

## What it does
Compares the SHA-256 of all logs under audit.

## Why it matters
A run counts once. The same bytes in another place are a run that never was.

## Example
A/results/box/bert/result_3.txt and B/results/box/bert/result_0.txt are the same file.

## Instead
Make the run. A result that is handed in again says so in its claim.

## Source
MLPerf training rules: each result is of its own runs. Identical logs stand in published rounds.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import Tree, grouped
from harness.checker.audit.signals import SignalRule, Trace, trace

SCOPE = "tree"
LIMITS = ()


def check(tree: Tree, rule: SignalRule) -> Iterator[Trace]:
    for group in grouped(tree.runs, "sha256"):
        for run in group[1:]:
            yield trace(run.path, None, f"is the same file as {group[0].path}", 1.0, sha256=run.sha256)
