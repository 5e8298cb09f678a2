"""A result is too fast, or has too many processes, for the accelerators of its description.

## What it does
Divides the speed of each result (samples or epochs per second) by the number of accelerators described, and compares
this with other results of the benchmark from about the same time on as many or fewer of the same accelerator, if they
come from at least two submitters. Also compares the number of ranks that the launcher wrote before lines of the log
with the number of accelerators.

## Why it matters
The time per accelerator decides which system is the better one. A system of sixteen accelerators that is described as
one of eight looks twice as good as it is.

## Example
8 accelerators that train 4.1 samples/s each, where no system of that accelerator has more than 2.3.

## Instead
Describe all accelerators that take part.

## Source
MLPerf submission rules, system descriptions. In published rounds, speed per accelerator falls as systems grow; the most
above a smaller system's was 7 %.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit.facts import RunDigest, Tree, grouped
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.errors import printable

SCOPE = "tree"
LIMITS = ("min_submitters", "max_apart_days", "max_faster")
DAY_MS = 86_400_000


def check(tree: Tree, rule: SignalRule) -> Iterator[Evidence]:
    for run in tree.runs:
        if run.num_accelerators is not None and run.num_ranks > run.num_accelerators:
            described = f"{run.num_accelerators} accelerators are described"
            message = f"a launcher numbered {run.num_ranks} processes; {described}"
            yield evidence(run.path, None, message, 1.0, ranks=run.num_ranks, accelerators=run.num_accelerators)
    for group in grouped(_medians(tree), "machine_class"):
        for run in group:
            others = [other for other in group if _is_like(run, other, rule["max_apart_days"] * DAY_MS)]
            best = max((_each(other) for other in others), default=0.0)
            submitters = {other.submitter for other in others}
            if len(submitters) >= rule["min_submitters"] and _each(run) > rule["max_faster"] * best:
                message = (
                    f"{_each(run):.4g} {run.unit}/s for each of {run.num_accelerators} accelerators, "
                    f"{_each(run) / best:.2f} times the fastest of {len(others)} other results of "
                    f"{printable(run.benchmark, 40)} on {printable(run.accelerator, 60)} in as many or fewer"
                )
                strength = 1 - rule["max_faster"] * best / _each(run)
                yield evidence(run.path, None, message, strength, each=_each(run), best=best)


def _medians(tree: Tree) -> list[RunDigest]:
    """Of each result that has a speed and accelerators, the run of median speed."""
    results: dict[object, list[RunDigest]] = {}
    for run in tree.runs:
        if run.machine_class is not None:
            results.setdefault(run.result, []).append(run)
    return [sorted(runs, key=lambda run: run.speed or 0.0)[len(runs) // 2] for runs in results.values()]


def _each(run: RunDigest) -> float:
    assert run.speed is not None
    assert run.num_accelerators is not None
    return run.speed / run.num_accelerators


def _is_like(run: RunDigest, other: RunDigest, apart_ms: float) -> bool:
    """Whether the other result is of another system, no larger, from about the same time."""
    assert run.num_accelerators is not None
    assert other.num_accelerators is not None
    if run.place == other.place or run.span_ms is None or other.span_ms is None:
        return False
    return other.num_accelerators <= run.num_accelerators and abs(other.span_ms[0] - run.span_ms[0]) <= apart_ms
