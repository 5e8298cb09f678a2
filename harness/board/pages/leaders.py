"""Who leads by time, cost and energy: one line a table."""

from __future__ import annotations

from dataclasses import dataclass

from harness.board.pages.cost_view import CostView
from harness.board.pages.energy_view import EnergyGroup, EnergyView
from harness.board.pages.time_view import RowView, TableView


@dataclass(frozen=True, slots=True)
class Leader:
    """The first of a ranking. amount: with its unit. note: what is compared. num_tied: others that share its rank."""

    view: RowView
    amount: str
    note: str
    num_tied: int


@dataclass(frozen=True, slots=True)
class Leaders:
    """Of one benchmark and division; None where nobody is ranked."""

    benchmark: str
    division: str
    fastest: Leader | None
    cheapest: Leader | None
    frugal_node: Leader | None
    frugal_component: Leader | None


def leaders(table: TableView, cost: CostView, energy: EnergyView) -> Leaders:
    """The first of each ranking of one table."""
    fastest = cheapest = None
    if table.ranked:
        first = table.ranked[0]
        tied = sum(view.row.band == first.row.band for view in table.ranked) - 1
        fastest = Leader(first, f"{first.time} {table.unit.symbol}", "", tied)
    if cost.ranked:
        row = cost.ranked[0]
        tied = sum(other.rank == row.rank for other in cost.ranked) - 1
        cheapest = Leader(row.view, row.usd or "", "at list price", tied)
    return Leaders(
        table.benchmark,
        table.division,
        fastest,
        cheapest,
        _frugal([group for group in energy.groups if group.board == "node"]),
        _frugal([group for group in energy.groups if group.board == "component"]),
    )


def _frugal(groups: list[EnergyGroup]) -> Leader | None:
    """Of the scope in which most are ranked."""
    if not groups:
        return None
    group = groups[0]
    row = group.rows[0]
    tied = sum(other.rank == row.rank for other in group.rows) - 1
    return Leader(row.view, row.energy, f"class {row.meter_class}, {group.scope}", tied)
