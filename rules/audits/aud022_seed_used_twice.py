"""The same seed is in two runs.

## What it does
Compares the seeds of runs of one benchmark, within a result and between results of one submitter's system.

## Why it matters
Seeds are drawn at random. The same seed twice means a run was chosen again for its outcome, or one log has two names.

## Example
result_2.txt and result_7.txt both have seed 25420.

## Instead
Draw each seed from the clock or the system's generator.

## Source
MLPerf training rules, "Random numbers": seeds are drawn from the clock or /dev/urandom.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunDigest, Tree
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "tree"
LIMITS = ("min_seed",)


def check(tree: Tree, rule: SignalRule) -> Iterator[Evidence]:
    groups: dict[object, list[RunDigest]] = {}
    for run in tree.runs:
        # Small seeds are counted, not drawn: every submitter has a run with seed 1.
        within = run.result if max(run.seeds, default=0) < rule["min_seed"] else None
        if run.seeds:
            groups.setdefault((run.benchmark, run.seeds, within), []).append(run)
    for group in groups.values():
        for run in group[1:]:
            is_near = run.result == group[0].result
            where = group[0].path.name if is_near else str(group[0].path)
            seeds = ", ".join(str(seed) for seed in run.seeds[:3])
            yield evidence(run.path, None, f"the seed {seeds} is also that of {where}", 1.0 if is_near else 0.4)
