"""Lines of one run are in another run of the result, too.

## What it does
Compares the runs of a result with each other: the times of their evaluations, and the values of those at the same
position in the later half of a run. Reported are two equal times, two neighbouring evaluations with equal values, and,
where the quality is a loss, a single one. (AUD021 finds runs of which most is copied.)

## Why it matters
Two runs share no millisecond, and two seeds give different values. A stretch that was taken from a better run has that
run's numbers.

## Example
The last two evaluations of result_3.txt have the values, to the last digit, that result_0.txt has at the same samples.

## Instead
Submit each run as it was.

## Source
Published rounds: a single equal value is common where the quality is a share of a test set, two in a row are not; runs
at the same time on parts of one cluster have shared one millisecond.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from harness.checker.audit.facts import MIN_TIME_MS, Point, RunFacts, Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys

SCOPE = "result"
LIMITS = ("min_times", "min_values", "min_losses")


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    stamped = [(run, _stamps(run)) for run in subject.runs]
    for (other, theirs), (run, mine) in itertools.combinations(stamped, 2):
        if run.log.sha256 == other.log.sha256:
            continue  # AUD020
        shared = sorted(mine.keys() & theirs.keys())
        if len(shared) >= rule["min_times"]:
            message = f"{len(shared)} evaluations end at the same millisecond as evaluations of {other.path.name}"
            yield evidence(run.path, mine[shared[0]], message, 1.0, kind="times", times=len(shared))
        if not run.is_evaluated_afterwards:
            yield from _values(run, other, rule)


def _stamps(run: RunFacts) -> dict[float, int]:
    """The times at which an evaluation ended, with their lines."""
    stops = [event for event in run.log.all(keys.EVAL_STOP) if event.time_ms >= MIN_TIME_MS and event.time_ms % 1000]
    return {event.time_ms: event.lineno for event in stops}


def _values(run: RunFacts, other: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    theirs = {point.position: point.value for point in other.curve[len(other.curve) // 2 :]}
    late = [point for point in run.curve[len(run.curve) // 2 :] if point.position is not None]
    stretch: list[Point] = []
    for is_equal, group in itertools.groupby(late, lambda point: theirs.get(point.position) == point.value):
        found = list(group)
        if is_equal and len({point.value for point in found}) > len({point.value for point in stretch}):
            stretch = found
    least = rule["min_losses"] if _is_loss(run) else rule["min_values"]
    if len({point.value for point in stretch}) >= least:
        point = stretch[0]
        yield evidence(
            run.path,
            point.line,
            f"from {point.position:g} {point.unit} on, {len(stretch)} evaluations in a row have exactly the values of "
            f"{other.path.name}, the first {point.value!r}",
            1.0,
            kind="values",
            times=len(stretch),
        )


def _is_loss(run: RunFacts) -> bool:
    """Whether the quality is a loss, which takes any value: less is better, and it is not a rate below one."""
    return run.standard.direction == "min" and min(point.value for point in run.curve) > 0.5
