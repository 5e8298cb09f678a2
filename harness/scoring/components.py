"""Where the scatter of samples to target comes from: components of the variance of their logarithm. Pure.

Runs in which one source of chance varies while the others are held, at several points at which they are held, have the
mean square of that source: its variance and that of repeats with all seeds the same, pooled over the points, each with
its own mean. The difference of the two is the source's component. What sources do together (interaction) is in the
component of each of them, so that the components may add up to more than the whole; that excess is the interaction,
with its part of all three counted twice.

Intervals are of generalised pivots: each mean square is divided by chi-square over its degrees of freedom, in as many
draws as are needed, and the quantity is computed from those. For a mean square alone that is the chi-square interval.
A bootstrap would hold too rarely with so few runs. They hold as often as they say where the sources add up; strong
interaction makes the scatter differ from point to point, and few points are then too few.

Source: S. Weerahandi, Journal of the American Statistical Association 88 (1993), for the intervals; A. Saltelli et al.,
Computer Physics Communications 181 (2010), for variances with all else held ("total effects").
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.base.stats import variance
from harness.log.seeds import SOURCES
from harness.scoring.non_inferiority import Scatter, tolerance_of

REPEATS, ALL, INTERACTION = "repeats", "all", "interaction"
LEVEL = 0.9  # of intervals, as those of a reproduction
NUM_DRAWS = 2000  # the limits of a chi-square interval are then known to 1 %

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Group:
    """Runs with the same fixed seeds. varied: the sources whose seeds differ: none, one or all.

    samples: to target, interpolated, positive; None: the run missed it.
    """

    varied: tuple[str, ...]
    samples: tuple[float | None, ...]

    @property
    def part(self) -> str:
        """The name of the part that the group's mean square is of."""
        return ALL if len(self.varied) > 1 else "".join(self.varied) or REPEATS


@dataclass(frozen=True, slots=True)
class Part:
    """A row of the table.

    name: a source, "repeats" (all seeds the same), "all" (all seeds differ) or "interaction".
    num_runs, num_missed, dof: of the runs behind it; those that missed are in no logarithm, and dof is with how many
        degrees of freedom the others know the mean square. 0 for the interaction.
    deviation, interval: the component's standard deviation, of the logarithm, and its 90 % interval; 0 where the mean
        square is below that of the repeats. None where it is not known.
    share, share_interval: of the variance where all seeds differ.
    p: of the one-sided F-test that the mean square is not above that of the repeats.
    """

    name: str
    num_runs: int
    num_missed: int
    dof: int
    deviation: float | None = None
    interval: Interval | None = None
    share: float | None = None
    share_interval: Interval | None = None
    p: float | None = None


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Which tolerance the scatter bears. scatter: where all seeds differ; interval: of its coefficient of variation.

    follows: the tolerance; at_least, at_most: those that follow at the ends of the interval.
    """

    scatter: Scatter
    interval: Interval
    follows: float
    at_least: float
    at_most: float


def components(groups: Sequence[Group], inert: Sequence[str] = ()) -> list[Part]:
    """Return the sources that were varied, the repeats, the whole and the interaction, as far as there are runs.

    inert: sources that nothing is drawn from; the interaction is known without runs of them.
    """
    squares = _mean_squares(groups)
    parts = []
    for name in (*SOURCES, REPEATS, ALL):
        own = [group for group in groups if group.part == name]
        if not own:
            continue
        runs = [samples for group in own for samples in group.samples]
        dof = 0 if name not in squares else squares[name].dof
        part = Part(name, len(runs), sum(samples is None for samples in runs), dof)
        is_known = name in squares and (name in (REPEATS, ALL) or REPEATS in squares)
        weights = {name: 1.0} if name in (REPEATS, ALL) else {name: 1.0, REPEATS: -1.0}
        parts.append(_measured(part, squares, weights) if is_known else part)
    live = [name for name in SOURCES if name not in inert]
    if all(name in squares for name in (*live, REPEATS, ALL)):
        # The sum of the components, less the whole without the repeats.
        excess = {**dict.fromkeys(live, 1.0), REPEATS: 1.0 - len(live), ALL: -1.0}
        parts.append(_measured(Part(INTERACTION, 0, 0, 0), squares, excess))
    return parts


def borne(groups: Sequence[Group]) -> Tolerance | None:
    """Return the tolerance that the scatter where all seeds differ bears; None where that scatter is not known."""
    squares = _mean_squares(groups)
    if ALL not in squares:
        return None
    low, high = _interval(_pivots(squares, {ALL: 1.0}))
    ends = [Scatter(end, squares[ALL].dof) for end in (low, squares[ALL].variance, high)]
    at_least, follows, at_most = (tolerance_of(None, end) for end in ends)
    assert at_least is not None
    assert follows is not None
    assert at_most is not None
    return Tolerance(squares[ALL], (ends[0].variation, ends[2].variation), follows, at_least, at_most)


def _mean_squares(groups: Sequence[Group]) -> dict[str, Scatter]:
    """The mean square of each part, pooled over its groups; absent where no group has two runs that reached."""
    found: dict[str, list[tuple[float, int]]] = {}
    for group in groups:
        logs = [math.log(samples) for samples in group.samples if samples is not None]
        if len(logs) > 1:
            found.setdefault(group.part, []).append((variance(logs), len(logs) - 1))
    pooled = {}
    for name, parts in found.items():
        dof = sum(number for _, number in parts)
        pooled[name] = Scatter(math.fsum(square * number for square, number in parts) / dof, dof)
    return pooled


def _measured(part: Part, squares: Mapping[str, Scatter], weights: Mapping[str, float]) -> Part:
    """The part whose component is the sum of mean squares times `weights`."""
    component = math.fsum(weight * squares[name].variance for name, weight in weights.items())
    low, high = _interval(_pivots(squares, weights))
    share = share_interval = None
    if ALL in squares and squares[ALL].variance > 0:
        share = max(0.0, component) / squares[ALL].variance
        share_interval = (1.0, 1.0) if part.name == ALL else _shares(squares, weights)
    return Part(
        part.name,
        part.num_runs,
        part.num_missed,
        part.dof,
        math.sqrt(max(0.0, component)),
        (math.sqrt(max(0.0, low)), math.sqrt(max(0.0, high))),
        share,
        share_interval,
        _p_above(squares[part.name], squares[REPEATS])
        if part.num_runs and part.name != REPEATS and REPEATS in squares
        else None,
    )


def _p_above(square: Scatter, repeats: Scatter) -> float:
    """The probability of a ratio of mean squares at least this large between equal variances.

    Repeats that are all equal have no variance: whatever varies then varies more.
    """
    if square.variance == 0:
        return 1.0
    if repeats.variance == 0:
        return 0.0
    from scipy.special import fdtrc

    return float(fdtrc(square.dof, repeats.dof, square.variance / repeats.variance))


def _shares(squares: Mapping[str, Scatter], weights: Mapping[str, float]) -> Interval:
    parts, wholes = _pivots(squares, weights), _pivots(squares, {ALL: 1.0})
    low, high = _interval([part / whole for part, whole in zip(parts, wholes, strict=True)])
    return max(0.0, low), max(0.0, high)


def _pivots(squares: Mapping[str, Scatter], weights: Mapping[str, float]) -> list[float]:
    """The sum of mean squares times `weights` in each draw."""
    totals = [0.0] * NUM_DRAWS
    for name, weight in weights.items():
        factor = weight * squares[name].variance
        totals = [total + factor * draw for total, draw in zip(totals, _draws(name, squares[name].dof), strict=True)]
    return totals


@functools.lru_cache(64)
def _draws(name: str, dof: int) -> tuple[float, ...]:
    """Degrees of freedom over chi-square, one from each of equally probable intervals, in an order of its own."""
    from scipy.special import chdtri

    tails = [(number + 0.5) / NUM_DRAWS for number in range(NUM_DRAWS)]
    random.Random(name).shuffle(tails)  # noqa: S311  (a simulation)
    return tuple(dof / draw for draw in chdtri(dof, tails).tolist())


def _interval(draws: Sequence[float]) -> Interval:
    ordered = sorted(draws)
    place = round((1 - LEVEL) / 2 * len(ordered))
    return ordered[place], ordered[-1 - place]
