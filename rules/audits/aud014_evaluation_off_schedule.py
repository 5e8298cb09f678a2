"""Evaluations are missing, or stand where the schedule has none.

## What it does
The commonest distance between evaluations is the schedule of a run, and its most common beginning that of a result:
a distance that is not the run's own, and a run that begins elsewhere than the others, are reported; and a schedule
that is not the one of the round's rules, or, where those have none written down, not the reference's, whose runs ended
at multiples of one distance.

## Why it matters
An evaluation that is left out hides a miss; one at a moment of the run's own choosing catches a lucky value.

## Example
Evaluations at 20, 40, 60, 100 and 107 thousand samples.

## Instead
Evaluate by the schedule of the rules, and log every evaluation.

## Source
MLPerf training rules: evaluation at the frequency of the reference.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

from harness import events as key
from harness.auditing.facts import RunFacts, Subject
from harness.auditing.suspicion import SignalRule, Trace, trace
from harness.formula import Line

SCOPE = "result"
LIMITS = ("max_relative", "min_evaluations", "min_runs", "max_off_reference")
NEAR = 2  # times the reference's distance; beyond it the ends of its runs say little about a schedule


def check(subject: Subject, rule: SignalRule) -> Iterator[Trace]:
    for run in subject.runs:
        yield from _distances(run, rule)
        yield from _unlike_rules(run, rule) if run.standard.distance is not None else _unlike_reference(run, rule)
    begins = [(run, run.curve[0]) for run in subject.runs if run.curve and run.curve[0].position is not None]
    if len(begins) < rule["min_runs"]:
        return
    common, times = Counter(point.position for _, point in begins).most_common(1)[0]
    assert common is not None
    for run, point in begins if times > len(begins) / 2 else ():
        assert point.position is not None
        if abs(point.position - common) > rule["max_relative"] * abs(common):
            yield trace(
                run.path,
                point.line,
                f"the first evaluation is at {point.position:g} {point.unit}; {times} of {len(begins)} runs begin at "
                f"{common:g}",
                abs(point.position - common) / max(point.position, common, 1e-9),
                position=point.position,
                usual=common,
            )


def _distances(run: RunFacts, rule: SignalRule) -> Iterator[Trace]:
    positioned = [point for point in run.curve if point.position is not None]
    pairs = [
        (after, (after.position or 0) - (before.position or 0)) for before, after in itertools.pairwise(positioned)
    ]
    pairs = [(point, distance) for point, distance in pairs if distance > 0]
    if len(pairs) < rule["min_evaluations"]:
        return
    usual = sorted(distance for _, distance in pairs)[len(pairs) // 2]
    # The last may come early: the run, its data or its budget ends.
    odd = [pair for pair in pairs if abs(pair[1] - usual) > rule["max_relative"] * usual]
    if odd and (len(odd) > 1 or odd[0] is not pairs[-1] or odd[0][1] > usual):
        point, distance = max(odd, key=lambda pair: abs(pair[1] - usual))
        yield trace(
            run.path,
            point.line,
            f"{distance:g} {point.unit} from one evaluation to this one; the run's usual distance is {usual:g}, and "
            f"{len(odd)} of {len(pairs)} differ",
            min(1.0, abs(distance / usual - 1)) * (1 - len(odd) / len(pairs)),
            distance=distance,
            usual=usual,
            times=len(odd),
        )


def _usual(run: RunFacts, rule: SignalRule) -> float | None:
    """The median distance of a run's evaluations, in the reference's unit; None where there are too few of them."""
    steps = [
        after.position - before.position
        for before, after in itertools.pairwise(run.curve)
        if after.position is not None and before.position is not None and after.position > before.position
    ]
    units = {point.unit for point in run.curve}
    if len(steps) < rule["min_evaluations"] or units != {run.standard.reference_unit}:
        return None
    return sorted(steps)[len(steps) // 2]


def _unlike_rules(run: RunFacts, rule: SignalRule) -> Iterator[Trace]:
    demand, usual = run.standard.distance, _usual(run, rule)
    assert demand is not None
    if usual is None or demand.holds(Line(usual, earlier={key.GLOBAL_BATCH_SIZE: run.batch})):
        return
    yield trace(
        run.path,
        run.curve[0].line,
        f"evaluated every {usual:g} {run.standard.reference_unit}; the rules ask for {demand.text} of this value "
        f"(batch size {'not stated' if run.batch is None else f'{run.batch:g}'})",
        1.0,
        usual=usual,
        demand=demand.text,
    )


def _unlike_reference(run: RunFacts, rule: SignalRule) -> Iterator[Trace]:
    """Evaluations at distances that the reference's runs, which ended at evaluations, cannot have had."""
    ends = sorted(set(run.standard.reference))
    least = min((after - before for before, after in itertools.pairwise(ends)), default=0.0)
    usual = _usual(run, rule)
    if usual is None or least <= 0:
        return
    times = usual / least
    if times < NEAR and (times < 0.5 or abs(times - round(times)) > rule["max_off_reference"]):
        yield trace(
            run.path,
            run.curve[0].line,
            f"evaluated every {usual:g} {run.standard.reference_unit}; the reference's runs ended at distances of "
            f"{least:g}",
            abs(times - 1),
            usual=usual,
            least=least,
        )
