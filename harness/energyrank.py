"""Which energies are compared with which, and in what order. Pure.

Whole nodes (classes A and B) are one board, components (C and D) another; what is modelled (E) or missing (N) is on
none. Within a board only equal scopes are compared. Energies whose 95 % intervals overlap are a tie and share a rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.runenergy import RunEnergy

Board = Literal["node", "component"]


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


def tie(one: RunEnergy, other: RunEnergy) -> bool:
    """Whether the two cannot be told apart: both may rank, on one board in one scope, and their intervals overlap.

    Intervals that only touch overlap.
    """
    board = board_of(one)
    if board is None or board != board_of(other) or one.scope != other.scope:
        return False
    assert one.joules is not None
    assert other.joules is not None
    return abs(one.joules - other.joules) <= (one.uncertainty_j or 0.0) + (other.uncertainty_j or 0.0)


def rank(energies: Sequence[RunEnergy]) -> list[Place | None]:
    """The place of each energy, in their order; None for what may not rank.

    As on the board of times: the most frugal leads the first rank, whoever ties with the leader shares its rank, and
    the first who does not leads the next, whose number is 1 plus how many are ahead.
    """
    places: list[Place | None] = [None] * len(energies)
    groups: dict[tuple[Board, str], list[int]] = {}
    for index, energy in enumerate(energies):
        board = board_of(energy)
        if board is not None:
            groups.setdefault((board, energy.scope), []).append(index)
    for (board, scope), group in groups.items():
        leader: RunEnergy | None = None
        number = 0
        for ahead, index in enumerate(sorted(group, key=lambda i: energies[i].joules or 0.0)):
            if leader is None or not tie(leader, energies[index]):
                leader, number = energies[index], ahead + 1
            places[index] = Place(board, scope, number)
    return places
