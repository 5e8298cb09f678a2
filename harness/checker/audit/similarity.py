"""How similar two runs are, by the values of their evaluations and by the times between their lines. Pure.

Distances are counted in steps: how far one number of a run usually is from the next of its kind. Two runs of one recipe
with different seeds differ by about a step; a copy with slightly altered numbers differs by far less.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

SHARE = 2 / 3  # of a run's numbers; a copy may have some of its own
MIN_DIFFERENT = 3
MIN_INTERVALS = 8
LEAST_MS = 20.0  # a shorter interval is the writing of lines, and rounded to 1 ms in other programs' logs
MAX_NUMBERS = 128  # the beginning of a run identifies it


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The first numbers of a run, in order. step: how far one usually is from the next; 0 if they never change."""

    numbers: tuple[float, ...]
    step: float


@dataclass(frozen=True, slots=True)
class Alike:
    """How many numbers of a run another run has, and by how many steps the worst of them is off."""

    num: int
    off_steps: float


def of_values(values: Iterable[float]) -> Fingerprint:
    """The fingerprint of a curve."""
    numbers = tuple(values)[:MAX_NUMBERS]
    return Fingerprint(numbers, _usual(abs(after - before) for before, after in pairwise(numbers)))


def of_intervals(intervals: Iterable[tuple[object, float]]) -> Fingerprint:
    """The fingerprint of a timeline: kinds of intervals with milliseconds; a step is between two of the same kind."""
    first = list(intervals)[:MAX_NUMBERS]
    last: dict[object, float] = {}
    steps = []
    for kind, ms in first:
        before = last.get(kind, 0.0)
        if min(before, ms) > LEAST_MS:
            steps.append(abs(ms - before))
        last[kind] = ms
    return Fingerprint(tuple(ms for _, ms in first), _usual(steps))


def alike(mine: Fingerprint, theirs: Fingerprint, max_steps: float) -> Alike | None:
    """Whether two thirds of my numbers, with three different ones among them, are theirs in the same places."""
    step = min(mine.step, theirs.step)
    within = max_steps * step
    pairs = zip(mine.numbers, theirs.numbers, strict=False)
    near = [(abs(number - other), number) for number, other in pairs if abs(number - other) <= within]
    if len(near) < SHARE * len(mine.numbers) or _num_different([number for _, number in near], within) < MIN_DIFFERENT:
        return None
    return Alike(len(near), max(near)[0] / step if step else 0.0)


def of_one_pace(mine: Fingerprint, theirs: Fingerprint, max_steps: float) -> tuple[Alike, float] | None:
    """Whether my intervals are theirs multiplied by one factor, and that factor."""
    pairs = [pair for pair in zip(mine.numbers, theirs.numbers, strict=False) if min(pair) > LEAST_MS]
    if len(pairs) < MIN_INTERVALS:
        return None
    factor = statistics.median(number / other for number, other in pairs)
    scaled = Fingerprint(tuple(factor * other for _, other in pairs), theirs.step)
    found = alike(Fingerprint(tuple(number for number, _ in pairs), mine.step), scaled, max_steps)
    return None if found is None else (found, factor)


def _usual(steps: Iterable[float]) -> float:
    """The median of the steps that are not 0: a quality that stays at chance for half of a run must not count."""
    moved = [step for step in steps if step]
    usual = statistics.median(moved) if moved else 0.0
    return usual if isfinite(usual) else 0.0


def _num_different(numbers: Sequence[float], within: float) -> int:
    """The number of groups that the numbers form, each further than `within` from the next; at least one."""
    return 1 + sum(after - before > within for before, after in pairwise(sorted(numbers)))
