"""Two runs took place on one system at the same time.

## What it does
Compares the time from run_start to run_stop of all runs on one submitter's system, over all audited benchmarks.

## Why it matters
A system that runs two things at once runs neither at full speed; a description that covers several machines hides which
one ran.

## Example
bert/result_2.txt from 12:00 to 12:20 and resnet/result_0.txt from 12:10 to 12:40, both on box1.

## Instead
Make one run at a time on the described system; describe several machines separately.

## Source
MLPerf training rules, "System and framework must be consistent".
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunDigest, Tree
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "tree"
LIMITS = ("min_fraction",)


def check(tree: Tree, rule: SignalRule) -> Iterator[Evidence]:
    places: dict[str, list[tuple[float, float, RunDigest]]] = {}
    for run in tree.runs:
        if run.span_ms is not None:
            places.setdefault(run.place, []).append((*run.span_ms, run))
    for spans in places.values():
        spans.sort(key=lambda item: (item[0], item[1], str(item[2].path)))
        latest = spans[0]
        for span in spans[1:]:
            shared_ms = min(latest[1], span[1]) - span[0]
            shorter_ms = min(latest[1] - latest[0], span[1] - span[0])
            if shared_ms > rule["min_fraction"] * shorter_ms and span[2].sha256 != latest[2].sha256:
                message = (
                    f"this run overlapped for {shared_ms / 1e3:.0f} s with {latest[2].path} on {span[2].place}, "
                    f"{100 * shared_ms / shorter_ms:.0f} % of the shorter of the two"
                )
                yield evidence(span[2].path, None, message, shared_ms / shorter_ms, shared_s=shared_ms / 1e3)
            latest = max(latest, span, key=lambda item: item[1])
