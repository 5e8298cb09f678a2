"""The same log is in a tree under two names.

## What it does
Compares the SHA-256 of all audited logs.

## Why it matters
A run counts once. The same bytes in a second place are a run that never happened.

## Example
A/results/box/bert/result_3.txt and B/results/box/bert/result_0.txt are the same file.

## Instead
Make the run. A result that is submitted again says so in its claim.

## Source
MLPerf training rules: each result is of its own runs. Identical logs occur in published rounds.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import Tree, grouped
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "tree"
LIMITS = ()


def check(tree: Tree, rule: SignalRule) -> Iterator[Evidence]:
    for group in grouped(tree.runs, "sha256"):
        for run in group[1:]:
            yield evidence(run.path, None, f"this is the same file as {group[0].path}", 1.0, sha256=run.sha256)
