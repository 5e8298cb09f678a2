"""The energy of a score, over the same runs as its time and scaled as they are, and the ranks by energy. Pure.

Its interval joins two errors of the logarithm: that of the meters, which is the mean of the runs' half widths (one
meter is wrong in one direction, so averaging does not help), and the differences between the runs. With one run there
is only the first.

Whole nodes (classes A and B) are ranked in one table, components (C and D) in another; modelled (E) and missing (N)
energies are in neither. Within a table only equal scopes are compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.base.stats import Estimate, rank_intervals, trimming_cost, variance
from harness.energy.limits import EnergyLimits
from harness.energy.meter_selection import CLASSES
from harness.energy.reasons import VoidReason
from harness.energy.run_energy import EnergySource, RunEnergy
from harness.log.power_format import MeterClass

Board = Literal["node", "component"]
HALF_WIDTH = 1.96  # standard deviations in the half width of a 95 % interval
KNOWN = 1000.0  # degrees of freedom of the meters' error, which is stated and not estimated
MIN_JOULES = 1e-9  # a result of 0 J has a logarithm, too


@dataclass(frozen=True, slots=True)
class ScoreEnergy:
    """Energy to target of a result, with the same normalisation as its time.

    joules: mean over the runs that the time is a mean of; None if one of them has none. A void energy may have joules:
        use `may_rank`. low_j, high_j: 95 % interval; None without joules. errors: of its logarithm, the variance and
        its degrees of freedom for each source.
    meter_class: the weakest of the runs. board: where it would be ranked; None for a class that never is.
    scope: what was metered where; only equal scopes are compared.
    void: why it is not ranked, from all those runs.
    share_estimated: of the joules, 0 to 1. mean_w: mean of the runs' mean power. idle_w: of the system while nothing
        ran; None if it was not metered.
    """

    joules: float | None
    low_j: float | None
    high_j: float | None
    meter_class: MeterClass
    board: Board | None
    scope: str
    void: tuple[VoidReason, ...] = ()
    share_estimated: float = 0.0
    mean_w: float | None = None
    idle_w: float | None = None
    errors: tuple[tuple[float, float], ...] = ()

    @property
    def estimate(self) -> Estimate:
        """The energy with its errors; there must be joules."""
        assert self.joules is not None
        return Estimate(max(self.joules, MIN_JOULES), self.errors)

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % confidence interval; None without joules."""
        return None if self.low_j is None or self.high_j is None else (self.low_j, self.high_j)

    @property
    def may_rank(self) -> bool:
        return self.joules is not None and self.board is not None and not self.void

    @property
    def source(self) -> EnergySource:
        if self.joules is None:
            return "none"
        return "estimated" if self.meter_class == "E" else "measured"


def score_energy(
    runs: Sequence[RunEnergy | None],
    factors: Sequence[float] | None = None,
    limits: EnergyLimits | None = None,
    idle_w: float | None = None,
    errors: Sequence[tuple[float, float]] = (),
    others: Sequence[RunEnergy | None] = (),
) -> ScoreEnergy | None:
    """Return the mean energy of the runs; None if none of them was metered.

    factors: what each run's energy is multiplied by, as its time is in the score; None: 1. idle_w: passed through.
    errors: of the factors, in addition to those of the meters and between the runs. others: runs that a trimmed mean
    leaves out, which show how much the runs differ, too.
    """
    metered = [run for run in runs if run is not None]
    if not metered:
        return None
    void = {reason for run in metered for reason in run.void}
    if len(metered) < len(runs):
        void.add(VoidReason.UNMETERED)
    scopes = sorted({run.scope for run in metered})
    if len(scopes) > 1:
        void.add(VoidReason.SCOPE_MIXED)
    weakest: MeterClass = max((run.meter_class for run in metered), key=CLASSES.index)
    scales = [1.0] * len(runs) if factors is None else list(factors)
    scaled = [(run, scale) for run, scale in zip(runs, scales, strict=True) if run is not None]
    joules = [run.joules * scale for run, scale in scaled if run.joules is not None]
    mean_j = low_j = high_j = mean_w = None
    all_errors: tuple[tuple[float, float], ...] = ()
    if len(joules) == len(runs):
        mean_j = math.fsum(joules) / len(joules)
        meters_j = math.fsum((run.uncertainty_j or 0.0) * scale for run, scale in scaled) / len(scaled)
        left_out = [run.joules for run in others if run is not None and run.joules is not None]
        all_errors = (*_errors(joules, left_out, meters_j), *errors)
        low_j, high_j = Estimate(max(mean_j, MIN_JOULES), all_errors).interval() or (mean_j, mean_j)
        watts = [run.mean_w for run in metered if run.mean_w is not None]
        mean_w = math.fsum(watts) / len(watts) if watts else None
    estimated_j = math.fsum(run.share_estimated * (run.joules or 0.0) * scale for run, scale in scaled)
    total_j = math.fsum(joules)
    return ScoreEnergy(
        joules=mean_j,
        low_j=low_j,
        high_j=high_j,
        meter_class=weakest,
        board=_board(weakest, limits or EnergyLimits()),
        scope="; ".join(scopes),
        void=tuple(sorted(void)),
        share_estimated=estimated_j / total_j if total_j > 0 else max(run.share_estimated for run in metered),
        mean_w=mean_w,
        idle_w=idle_w,
        errors=all_errors,
    )


def _board(meter_class: MeterClass, limits: EnergyLimits) -> Board | None:
    if meter_class in limits.node_classes:
        return "node"
    return "component" if meter_class in limits.component_classes else None


def _errors(joules: Sequence[float], left_out: Sequence[float], meters_j: float) -> tuple[tuple[float, float], ...]:
    """The errors of the logarithm of the mean of `joules`: of the meters, and between the runs.

    The interval of the meters is as wide as theirs, 2 sinh(h) times the mean, also where it would include zero.
    """
    meters = ((math.asinh(meters_j / _mean_j(joules)) / HALF_WIDTH) ** 2, KNOWN)
    runs = [*joules, *left_out]
    if len(runs) < 2:
        return (meters,)
    share = trimming_cost(len(runs), len(left_out) / 2) / len(runs)
    return meters, (variance(runs) / _mean_j(runs) ** 2 * share, len(runs) - 1)


def _mean_j(joules: Sequence[float]) -> float:
    return max(math.fsum(joules) / len(joules), MIN_JOULES)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a ranking by energy. ranks: the first and the last that it may have within its board and scope."""

    board: Board
    scope: str
    ranks: tuple[int, int]


def rank_energies(energies: Sequence[ScoreEnergy | None]) -> list[Place | None]:
    """Return the place of each energy on its board and in its scope, in their order; None for what may not rank.

    The ranks are intervals, as in the table by time; see `harness.base.stats.rank_intervals`.
    """
    places: list[Place | None] = [None] * len(energies)
    groups: dict[tuple[Board, str], list[tuple[int, ScoreEnergy]]] = {}
    for index, energy in enumerate(energies):
        if energy is not None and energy.may_rank:
            assert energy.board is not None
            groups.setdefault((energy.board, energy.scope), []).append((index, energy))
    for (board, scope), group in groups.items():
        found = rank_intervals([energy.estimate for _, energy in group])
        for (index, _), ranks in zip(group, found, strict=True):
            places[index] = Place(board, scope, ranks)
    return places
