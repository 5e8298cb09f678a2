"""Two different files are logs of the same run.

## What it does
Compares, over all audited logs, the milliseconds from each line of the timeline to the next, and the values of the
evaluations with all their digits. Then looks for near copies. Values: two thirds of a run's values equal another's at
the same places, to within a small part of the usual step in quality from one evaluation to the next; this is compared
within a result, and with runs of other results that have another seed and about the same value at one of their first
three evaluations. Times: within a result, two thirds of the run's intervals equal another's times a constant factor, to
within a small part of what intervals of one kind differ by within the run. Within a result each run is compared with
the first 50.

## Why it matters
A copy with another seed, another number, other line numbers or a shifted date is still a copy. No two runs take the
same milliseconds forty times, and no two seeds give the same curve. A copy whose ninth digits were changed, and whose
times were shortened by half a percent, is a copy too.

## Example
result_4.txt is result_1.txt with another seed and a day added to each time.

## Instead
Make the missing run.

## Source
Facts of published rounds: copies of a log with changed line numbers pass MLPerf's seed check. Runs of one result differ
by about one step, and never by less than 0.007 of a step.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checker.audit import similarity
from harness.checker.audit.facts import RunDigest, Tree, grouped
from harness.checker.audit.signals import Evidence, SignalRule, evidence

SCOPE = "tree"
LIMITS = ("max_off_steps", "max_off_time_steps", "min_time_step_ms")
KINDS = {
    "times": "the milliseconds between the lines of its timeline are those of",
    "curve": "the values of its evaluations are those of",
    "values": "all its keys and values except the seed are those of",
}
MAX_COMPARED = 50  # earlier runs of its result that a run is compared with; a result may have ten thousand
NUM_NEIGHBOURS = 8  # runs of other results with the nearest value, at each of the first NUM_PLACES evaluations
NUM_PLACES = 3


def check(tree: Tree, rule: SignalRule) -> Iterator[Evidence]:
    reported: set[object] = set()
    for name, words in KINDS.items():
        for group in grouped(tree.runs, name):
            for run in group[1:]:
                other = next((one for one in group if one.path != run.path and one.sha256 != run.sha256), None)
                if other is not None and run.path not in reported:
                    reported.add(run.path)
                    yield evidence(run.path, None, f"{words} {other.path}", 1.0, kind=name)
    for run, other in _pairs(tree):
        found = None if run.path in reported or run.sha256 == other.sha256 else _near(run, other, rule)
        if found is not None:
            reported.add(run.path)
            yield found


def _pairs(tree: Tree) -> Iterator[tuple[RunDigest, RunDigest]]:
    """A run and an earlier one: of the same result, then of the same benchmark if one of their values is similar."""
    for group in grouped(tree.runs, "result"):
        for place, run in enumerate(group):
            yield from ((run, other) for other in group[: min(place, MAX_COMPARED)])
    order = {run.path: nth for nth, run in enumerate(tree.runs)}
    for group in grouped(tree.runs, "benchmark"):
        for place in range(NUM_PLACES):
            long = [run for run in group if len(run.qualities.numbers) > place]
            by_value = sorted(long, key=lambda run: run.qualities.numbers[place])
            for nth, run in enumerate(by_value):
                for other in by_value[max(0, nth - NUM_NEIGHBOURS) : nth]:
                    if _is_independent(run, other):
                        yield (run, other) if order[run.path] > order[other.path] else (other, run)


def _is_independent(run: RunDigest, other: RunDigest) -> bool:
    """Whether the runs are of different results and seeds: equal seeds give equal curves on equal machines."""
    return run.result != other.result and (not run.seeds or run.seeds != other.seeds)


def _near(run: RunDigest, other: RunDigest, rule: SignalRule) -> Evidence | None:
    limit = rule["max_off_steps"]
    if (curve := similarity.alike(run.qualities, other.qualities, limit)) is not None:
        message = (
            f"the values of {curve.num} of its {len(run.qualities.numbers)} evaluations are those of {other.path} "
            f"to within {curve.off_steps:.2g} of the usual step between two; other runs are about one step apart"
        )
        return evidence(run.path, None, message, 1 - curve.off_steps / limit, kind="near curve", steps=curve.off_steps)
    limit = rule["max_off_time_steps"]
    if run.result != other.result or min(run.intervals.step, other.intervals.step) < rule["min_time_step_ms"]:
        return None
    if (pace := similarity.of_one_pace(run.intervals, other.intervals, limit)) is None:
        return None
    times, factor = pace
    message = (
        f"{times.num} of the times between the lines of its timeline are {factor:.4g} times those of {other.path} "
        f"to within {times.off_steps:.2g} of what such times differ by within a run"
    )
    return evidence(run.path, None, message, 1 - times.off_steps / limit, kind="near times", steps=times.off_steps)
