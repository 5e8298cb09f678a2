"""Which energies are compared with which, and in what order. Pure.

Whole nodes (classes A and B) are one board, components (C and D) another; what is modelled (E) or missing (N) is on
none. Within a board only equal scopes are compared. Energies whose 95 % intervals overlap are a tie and share a rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.energy.run_energy import RunEnergy

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

    As on the board of times: the most frugal leads the first rank, whoever ties with the leader shares its rank, and
    the first who does not leads the next, whose number is 1 plus how many are ahead.
    """
    places: list[Place | None] = [None] * len(standings)
    groups: dict[tuple[Board, str], list[tuple[float, int]]] = {}
    for index, standing in enumerate(standings):
        if standing is not None:
            groups.setdefault((standing.board, standing.scope), []).append((standing.joules, index))
    for (board, scope), group in groups.items():
        leader: tuple[Standing, Place] | None = None
        for ahead, (_, index) in enumerate(sorted(group)):
            mine = standings[index]
            assert mine is not None
            if leader is None or not is_tie(leader[0], mine):
                leader = mine, Place(board, scope, ahead + 1)
            places[index] = leader[1]
    return places
