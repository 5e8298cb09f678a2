"""Evaluations are missing, or are where the schedule has none.

## What it does
The most common distance between evaluations is taken as the schedule of a run, and the most common first position as
that of a result. Reported are a distance that differs from the run's own schedule, a run that begins at a different
position from the others, and a schedule that is not the one of the round's rules or, if the rules give none, not the
reference's, whose runs ended at multiples of one distance. The last evaluation may come early but never late: a
distance that exceeds those the rules require, or the run's other distances, by more than these differ among themselves
is reported however small the excess. If the rules give a schedule in samples, a first evaluation that is not at a
multiple of the distance is reported as well.

## Why it matters
Leaving out an evaluation hides a miss; choosing the moment of one catches a lucky value. An evaluation counted at a
later position than it had makes a run that converged too fast look like the reference.

## Example
Evaluations at 20, 40, 60, 100 and 107 thousand samples; at 20, 40, 60, 80 and 101 thousand.

## Instead
Evaluate by the schedule of the rules, and log every evaluation.

## Source
MLPerf training rules: evaluation at the frequency of the reference.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

from harness.checker.audit.facts import Point, RunFacts, Subject
from harness.checker.audit.signals import Evidence, SignalRule, evidence
from harness.log import keys
from harness.mlperf.formula import Line

SCOPE = "result"
ONLINE_ONLY = True  # checkpoints are evaluated in any order
LIMITS = ("max_relative", "max_longer", "min_evaluations", "min_runs", "max_off_reference")
NEAR = 2  # times the reference's distance; beyond that, the ends of its runs say little about a schedule


def check(subject: Subject, rule: SignalRule) -> Iterator[Evidence]:
    for run in subject.runs:
        yield from _distances(run, rule)
        yield from _begins_late(run, rule)
        yield from _unlike_rules(run, rule) if run.standard.distance is not None else _unlike_reference(run, rule)
    begins = [(run, run.curve[0]) for run in subject.runs if run.curve and run.curve[0].position is not None]
    if len(begins) < rule["min_runs"]:
        return
    common, times = Counter(point.position for _, point in begins).most_common(1)[0]
    assert common is not None
    for run, point in begins if times > len(begins) / 2 else ():
        assert point.position is not None
        if abs(point.position - common) > rule["max_relative"] * abs(common):
            yield evidence(
                run.path,
                point.line,
                f"the first evaluation is at {point.position:g} {point.unit}; {times} of {len(begins)} runs begin at "
                f"{common:g}",
                abs(point.position - common) / max(point.position, common, 1e-9),
                position=point.position,
                usual=common,
            )


def _distances(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    pairs = _steps(run)
    if not pairs:
        return
    distances = sorted(distance for _, distance in pairs)
    usual, longest = distances[(len(pairs) - 1) // 2], _longest(run, distances, rule)
    near = rule["max_relative"] * usual if len(pairs) >= rule["min_evaluations"] else float("inf")
    # The last evaluation may come early, when the run, its data or its budget ends.
    odd = [pair for pair in pairs if pair[1] > longest or abs(pair[1] - usual) > near]
    if odd and (len(odd) > 1 or odd[0] is not pairs[-1] or odd[0][1] >= usual):
        point, distance = max(odd, key=lambda pair: abs(pair[1] - usual))
        words = f"up to {longest:g} is regular" if distance > longest else f"the usual distance of the run is {usual:g}"
        yield evidence(
            run.path,
            point.line,
            f"{distance:g} {point.unit} from one evaluation to this one; {words}; {len(odd)} of {len(pairs)} differ",
            (1.0 if distance > longest else min(1.0, abs(distance / usual - 1))) * (1 - len(odd) / (len(pairs) + 1)),
            distance=distance,
            usual=usual,
            times=len(odd),
        )


def _steps(run: RunFacts) -> list[tuple[Point, float]]:
    """Each evaluation with a position beyond that of the one before, and the distance between the two."""
    return [
        (after, after.position - before.position)
        for before, after in itertools.pairwise(point for point in run.curve if point.position is not None)
        if after.position is not None and before.position is not None and after.position > before.position
    ]


def _longest(run: RunFacts, distances: list[float], rule: SignalRule) -> float:
    """The limit on distances: the longest regular distance plus the range of the regular distances.

    Regular are those that meet the constraint of the rules, and those that most of the run's distances are similar to;
    if there is no such majority, all but the longest.
    """
    begin = next(point.position or 0.0 for point in run.curve if point.position is not None)
    kept = [_permitted(run, sorted([begin, *distances]))]  # the first may be one distance from the beginning
    if len(distances) >= rule["min_evaluations"]:
        usual = distances[(len(distances) - 1) // 2]
        alike = [distance for distance in distances if abs(distance - usual) <= rule["max_longer"] * usual]
        kept.append(alike if 2 * len(alike) > len(distances) else distances[:-1])
    return min((2 * some[-1] - some[0] for some in kept if some), default=float("inf")) * (1 + rule["max_longer"])


def _permitted(run: RunFacts, distances: list[float]) -> list[float]:
    """The distances that meet the constraint of the round's rules; none if the log counts in another unit."""
    constraint = run.standard.distance
    if constraint is None or {point.unit for point in run.curve} != {run.standard.reference_unit}:
        return []
    return [found for found in distances if constraint.holds(Line(found, earlier={keys.GLOBAL_BATCH_SIZE: run.batch}))]


def _begins_late(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    """A first evaluation neither at a multiple of the distance nor up to a batch before: all counts are too high."""
    usual, points = _usual(run, rule), [point for point in run.curve if point.position is not None]
    if run.standard.distance is None or usual is None or run.standard.reference_unit != "samples":
        return
    positions = [point.position or 0.0 for point in points]
    steps = [distance for _, distance in _steps(run)]
    first = next((position for position in positions if position > 0), 0.0)
    late, room = first % usual, max(steps) - min(steps) + rule["max_longer"] * first
    if room < late < usual - room - (run.batch or 0.0):
        yield evidence(
            run.path,
            points[0].line,
            f"the first evaluation is at {first:g} samples, {late:g} more than a multiple of {usual:g}",
            1.0,
            position=first,
            usual=usual,
        )


def _usual(run: RunFacts, rule: SignalRule) -> float | None:
    """The median distance of a run's evaluations, in the reference's unit; None if there are too few of them."""
    steps = sorted(distance for _, distance in _steps(run))
    units = {point.unit for point in run.curve}
    if len(steps) < rule["min_evaluations"] or units != {run.standard.reference_unit}:
        return None
    return steps[len(steps) // 2]


def _unlike_rules(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    constraint, usual = run.standard.distance, _usual(run, rule)
    assert constraint is not None
    if usual is None or _permitted(run, [usual]):
        return
    yield evidence(
        run.path,
        run.curve[0].line,
        f"evaluated every {usual:g} {run.standard.reference_unit}; the rules require {constraint.text} of this value "
        f"(batch size {'not stated' if run.batch is None else f'{run.batch:g}'})",
        1.0,
        usual=usual,
        demand=constraint.text,
    )


def _unlike_reference(run: RunFacts, rule: SignalRule) -> Iterator[Evidence]:
    """Evaluations at distances that the reference's runs, which ended at evaluations, cannot have had."""
    ends = [] if run.standard.is_interpolated else sorted(set(run.standard.reference))
    least = min((after - before for before, after in itertools.pairwise(ends)), default=0.0)
    usual = _usual(run, rule)
    if usual is None or least <= 0:
        return
    times = usual / least
    if times < NEAR and (times < 0.5 or abs(times - round(times)) > rule["max_off_reference"]):
        yield evidence(
            run.path,
            run.curve[0].line,
            f"evaluated every {usual:g} {run.standard.reference_unit}; the ends of the reference's runs are at least "
            f"{least:g} apart",
            abs(times - 1),
            usual=usual,
            least=least,
        )
