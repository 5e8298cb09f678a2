"""The energy of a score: of the very runs that its time is a mean of. Pure.

The half width of its interval joins two doubts as squares: what the meters may be wrong by, which is the mean of the
runs' half widths (one meter is wrong in one direction, so that averaging does not help), and how much the runs differ,
which is Student's t over the runs that are kept. With one run kept there is only the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.base.stats import rank_bands, trimmed_interval
from harness.energy.meter_selection import CLASSES
from harness.energy.run_energy import EnergyLimits, EnergySource, RunEnergy
from harness.log.power_format import MeterClass

Board = Literal["node", "component"]


@dataclass(frozen=True, slots=True)
class Standing:
    """What is ranked: joules with their 95 % interval, comparable within one board and scope."""

    board: Board
    scope: str
    joules: float
    low_j: float
    high_j: float


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a ranking by energy: ranks count from 1 within one board and scope."""

    board: Board
    scope: str
    rank: int


def board_of(energy: RunEnergy) -> Board | None:
    """The board on which the energy may be ranked; None if on none."""
    if not energy.may_rank:
        return None
    return "node" if energy.meter_class in ("A", "B") else "component"


def standing_of(energy: RunEnergy) -> Standing | None:
    """What is ranked of the energy of one run; None if it may not be."""
    board = board_of(energy)
    if board is None:
        return None
    assert energy.joules is not None
    half_j = energy.uncertainty_j or 0.0
    return Standing(board, energy.scope, energy.joules, energy.joules - half_j, energy.joules + half_j)


def tie(one: RunEnergy, other: RunEnergy) -> bool:
    """Whether the two cannot be told apart: both may rank, on one board in one scope, and their intervals overlap."""
    first, second = standing_of(one), standing_of(other)
    return first is not None and second is not None and is_tie(first, second)


def is_tie(one: Standing, other: Standing) -> bool:
    """Whether the two are compared at all, and their intervals overlap. Intervals that only touch overlap."""
    is_compared = (one.board, one.scope) == (other.board, other.scope)
    return is_compared and one.low_j <= other.high_j and other.low_j <= one.high_j


def rank(energies: Sequence[RunEnergy]) -> list[Place | None]:
    """The place of each run's energy, in their order; None for what may not rank."""
    return rank_standings([standing_of(energy) for energy in energies])


def rank_standings(standings: Sequence[Standing | None]) -> list[Place | None]:
    """The place of each, in their order; None for None.

    As in the ranking by time, the lowest energy of a board and scope leads the first rank, and a standing that ties
    with the leader of a rank shares it.
    """
    places: list[Place | None] = [None] * len(standings)
    groups: dict[tuple[Board, str], list[tuple[int, Standing]]] = {}
    for index, standing in enumerate(standings):
        if standing is not None:
            groups.setdefault((standing.board, standing.scope), []).append((index, standing))
    for (board, scope), group in groups.items():
        group.sort(key=lambda item: item[1].joules)
        ranks = rank_bands([standing for _, standing in group], lambda item, leader: not is_tie(leader, item))
        for (index, _), rank in zip(group, ranks, strict=True):
            places[index] = Place(board, scope, rank)
    return places


UNMETERED = "unmetered"


@dataclass(frozen=True, slots=True)
class ScoreEnergy:
    """Energy to target of a result, after the normalisation that its time has.

    joules: mean over the runs that the time is a mean of; None where one of them has none. A void energy may well have
        joules: ask `may_rank`. low_j, high_j: 95 % interval; None without joules.
    meter_class: the weakest of the runs'. board: where it would be ranked; None for a class that never is.
    scope: what was metered where; only equal scopes are compared.
    void: why it is not ranked, the reasons of all those runs; see `harness.energy.run_energy`.
    share_estimated: of the joules, 0 to 1. mean_w: joules over the seconds of the runs. idle_w: of the system while
        nothing ran; None where it was not metered.
    """

    joules: float | None
    low_j: float | None
    high_j: float | None
    meter_class: MeterClass
    board: Board | None
    scope: str
    void: tuple[str, ...] = ()
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
    """The energy of the runs that are averaged; None where none of them was metered.

    factor: what the time was multiplied with to take fast convergence back. idle_w: as it is to be told.
    """
    metered = [run for run in runs if run is not None]
    if not metered:
        return None
    limits = limits or EnergyLimits()
    void = {name for run in metered for name in run.void}
    if len(metered) < len(runs):
        void.add(UNMETERED)
    scopes = sorted({run.scope for run in metered})
    if len(scopes) > 1:
        void.add("scope_mixed")
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
        board=_board(weakest, limits),
        scope="; ".join(scopes),
        void=tuple(sorted(void)),
        share_estimated=estimated_j / total_j if total_j > 0 else max(run.share_estimated for run in metered),
        mean_w=mean_w,
        idle_w=idle_w,
    )


def rank_energies(energies: Sequence[ScoreEnergy | None]) -> list[Place | None]:
    """The place of each energy on its board and in its scope, in their order; None for what may not rank."""
    return rank_standings([standing(energy) for energy in energies])


def standing(energy: ScoreEnergy | None) -> Standing | None:
    """What is ranked of an energy; None if it may not be."""
    if energy is None or not energy.may_rank:
        return None
    assert energy.joules is not None
    assert energy.board is not None
    low_j = energy.joules if energy.low_j is None else energy.low_j
    high_j = energy.joules if energy.high_j is None else energy.high_j
    return Standing(energy.board, energy.scope, energy.joules, low_j, high_j)


def _board(meter_class: MeterClass, limits: EnergyLimits) -> Board | None:
    if meter_class in limits.node_classes:
        return "node"
    return "component" if meter_class in limits.component_classes else None


def _half_width(joules: Sequence[float], half_widths: Sequence[float]) -> float:
    meters_j = math.fsum(half_widths) / len(half_widths)
    interval = trimmed_interval(joules, 0)
    spread_j = 0.0 if interval is None else (interval[1] - interval[0]) / 2
    return math.hypot(meters_j, spread_j)
