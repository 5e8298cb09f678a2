"""The energy of a score, over the same runs that its time is a mean of, and the ranks by energy. Pure.

The half width of its interval joins two uncertainties in squares: the error of the meters, which is the mean of the
runs' half widths (one meter is wrong in one direction, so averaging does not help), and the differences between the
runs, which is Student's t over the runs that are kept. With one run kept, there is only the first.

Whole nodes (classes A and B) are ranked in one table, components (C and D) in another; modelled (E) and missing (N)
energies are in neither. Within a table only equal scopes are compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.base.stats import rank_bands, trimmed_interval
from harness.energy.limits import EnergyLimits
from harness.energy.meter_selection import CLASSES
from harness.energy.reasons import VoidReason
from harness.energy.run_energy import EnergySource, RunEnergy
from harness.log.power_format import MeterClass

Board = Literal["node", "component"]


@dataclass(frozen=True, slots=True)
class ScoreEnergy:
    """Energy to target of a result, with the same normalisation as its time.

    joules: mean over the runs that the time is a mean of; None if one of them has none. A void energy may have joules:
        use `may_rank`. low_j, high_j: 95 % interval; None without joules.
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
    factor: float = 1.0,
    limits: EnergyLimits | None = None,
    idle_w: float | None = None,
) -> ScoreEnergy | None:
    """Return the energy of the averaged runs; None if none of them was metered.

    factor: by which the time was multiplied to normalise fast convergence. idle_w: passed through.
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
    joules = [run.joules for run in metered if run.joules is not None]
    mean_j = low_j = high_j = mean_w = None
    if len(joules) == len(runs):
        mean_j = math.fsum(joules) / len(joules) * factor
        half_j = _half_width(joules, [run.uncertainty_j or 0.0 for run in metered]) * factor
        low_j, high_j = max(0.0, mean_j - half_j), mean_j + half_j
        watts = [run.mean_w for run in metered if run.mean_w is not None]
        mean_w = math.fsum(watts) / len(watts) if watts else None
    estimated_j = math.fsum(run.share_estimated * (run.joules or 0.0) for run in metered)
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
    )


def _board(meter_class: MeterClass, limits: EnergyLimits) -> Board | None:
    if meter_class in limits.node_classes:
        return "node"
    return "component" if meter_class in limits.component_classes else None


def _half_width(joules: Sequence[float], half_widths: Sequence[float]) -> float:
    meters_j = math.fsum(half_widths) / len(half_widths)
    interval = trimmed_interval(joules, 0)
    spread_j = 0.0 if interval is None else (interval[1] - interval[0]) / 2
    return math.hypot(meters_j, spread_j)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a ranking by energy. rank: from 1 within one board and scope."""

    board: Board
    scope: str
    rank: int


def rank_energies(energies: Sequence[ScoreEnergy | None]) -> list[Place | None]:
    """Return the place of each energy on its board and in its scope, in their order; None for what may not rank.

    As in the table by time, the most frugal leads the first rank, every energy that ties with the leader shares its
    rank, and the first that does not leads the next, whose number is 1 plus the number of energies ahead.
    """
    places: list[Place | None] = [None] * len(energies)
    groups: dict[tuple[Board, str], list[tuple[float, int, ScoreEnergy]]] = {}
    for index, energy in enumerate(energies):
        if energy is not None and energy.may_rank:
            assert energy.board is not None
            assert energy.joules is not None
            groups.setdefault((energy.board, energy.scope), []).append((energy.joules, index, energy))
    for (board, scope), group in groups.items():
        ordered = sorted(group, key=lambda item: item[:2])
        found = rank_bands([energy for _, _, energy in ordered], lambda one, leader: not is_tie(one, leader))
        for (_, index, _), rank in zip(ordered, found, strict=True):
            places[index] = Place(board, scope, rank)
    return places


def is_tie(one: ScoreEnergy, other: ScoreEnergy) -> bool:
    """Whether the 95 % intervals of two ranked energies overlap. Intervals that only touch overlap."""
    assert one.low_j is not None
    assert one.high_j is not None
    assert other.low_j is not None
    assert other.high_j is not None
    return one.low_j <= other.high_j and other.low_j <= one.high_j
