"""The ranking by energy: whole nodes and components apart, equal scopes only; the unranked results with the reasons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.board.charts.scales import Label
from harness.board.charts.scatter import Dot, front_of, scatter_chart
from harness.board.index import Board, Entry
from harness.board.pages.energy_words import void_words
from harness.board.pages.time_view import RowView, TableView, energy_words, row_name
from harness.board.pages.words import JOULES, TO, Unit, in_unit, plural, significant, slug, unit_for
from harness.energy.score import Place, ScoreEnergy, rank_energies


@dataclass(frozen=True, slots=True)
class EnergyRow:
    """One result by energy. ranks: None where it is not ranked by energy. measured: before scaling, not ranked.

    kind: "measured", "void", "estimated", "not measured" or "unranked" (the result itself is not ranked).
    reasons: why it is not ranked, each with the code of its check. coverage, longest_gap_s: of its worst run.
    mark: the label of its point in the chart; None without one.
    """

    view: RowView
    ranks: tuple[int, int] | None
    kind: str
    energy: str
    interval: str | None
    measured: str | None
    measured_interval: str | None
    meter_class: str
    scope: str
    mean_w: str | None
    idle_w: str | None
    share_estimated: float
    coverage: float | None
    longest_gap_s: float | None
    reasons: tuple[tuple[str | None, str], ...] = ()
    mark: str | None = None
    is_best: bool = False


@dataclass(frozen=True, slots=True)
class EnergyGroup:
    """Results whose energies are compared: those of one board and one scope."""

    key: str
    board: str
    scope: str
    unit: Unit
    rows: tuple[EnergyRow, ...]
    missed: tuple[tuple[str, str, float, float], ...]
    chart: Markup


@dataclass(frozen=True, slots=True)
class EnergyView:
    """A table by energy: its groups, whole nodes first, and the results that are in no group."""

    key: str
    division: str
    groups: tuple[EnergyGroup, ...]
    others: tuple[EnergyRow, ...]

    def of(self, entry: Entry) -> EnergyRow:
        """The row of an entry that is in the table."""
        rows = [*(row for group in self.groups for row in group.rows), *self.others]
        return next(row for row in rows if row.view.entry.place == entry.place)


def energy_view(board: Board, table: TableView) -> EnergyView:
    """The table by energy, lowest first."""
    places = rank_energies([view.row.score.energy for view in table.ranked])
    by_group: dict[tuple[str, str], list[tuple[RowView, Place]]] = {}
    others = []
    for view, place in zip(table.ranked, places, strict=True):
        if place is None:
            others.append(_row(view, None, unit_for([view.row.score.energy_j], JOULES), board))
        else:
            by_group.setdefault((place.board, place.scope), []).append((view, place))
    missed = [item for view in table.others if (item := _spent(view)) is not None]
    groups = [
        _group(board, table, name, scope, by_group[name, scope], missed)
        for name, scope in sorted(by_group, key=lambda group: (group[0] != "node", -len(by_group[group]), group[1]))
    ]
    others += [_row(view, None, unit_for([view.row.score.energy_j], JOULES), board) for view in table.others]
    order = ("void", "estimated", "not measured", "unranked")
    others.sort(key=lambda row: order.index(row.kind))
    return EnergyView(table.key, table.division, tuple(groups), tuple(others))


@dataclass(frozen=True, slots=True)
class _Spent:
    """Mean time and energy of the runs of a result that missed its target."""

    view: RowView
    board: str
    scope: str
    seconds: float
    joules: float


def _spent(view: RowView) -> _Spent | None:
    runs = [run for run in view.row.score.runs if run.run_s is not None]
    energies = [run.energy for run in runs if run.energy is not None and run.energy.may_rank]
    groups = {("node" if energy.meter_class in "AB" else "component", energy.scope) for energy in energies}
    if (
        view.row.score.seconds is not None
        or not view.missed
        or not runs
        or len(energies) < len(runs)
        or len(groups) != 1
    ):
        return None
    (board, scope), num = groups.pop(), len(runs)
    joules = math.fsum(energy.joules or 0.0 for energy in energies) / num
    return _Spent(view, board, scope, math.fsum(run.run_s or 0.0 for run in runs) / num, joules)


def _group(
    board: Board,
    table: TableView,
    kind: str,
    scope: str,
    placed: Sequence[tuple[RowView, Place]],
    all_missed: Sequence[_Spent],
) -> EnergyGroup:
    placed = sorted(placed, key=lambda item: (item[0].row.score.energy_j or 0.0, item[0].row.path))
    missed = [item for item in all_missed if (item.board, item.scope) == (kind, scope)]
    unit = unit_for([*(view.row.score.energy_j for view, _ in placed), *(item.joules for item in missed)], JOULES)
    dots = [_dot(view, str(number), unit) for number, (view, _) in enumerate(placed, 1)]
    dots += [
        Dot(row_name(item.view.row), str(number), item.seconds, item.joules / unit.size, is_reached=False)
        for number, item in enumerate(missed, len(placed) + 1)
    ]
    best = {dots[index].mark for index in front_of(dots)}
    key = slug([table.key, kind, scope]).replace(".", "-")
    text = f"{plural(len(placed), 'result')} by score and energy; lower is better for both"
    label = Label(f"energy-{key}", "Energy and score", f"{text}. Filled points are on the Pareto front.")
    rows = tuple(
        _row(view, place.ranks, unit, board, str(number), str(number) in best)
        for number, (view, place) in enumerate(placed, 1)
    )
    crosses = tuple(
        (str(number), row_name(item.view.row), item.seconds, item.joules)
        for number, item in enumerate(missed, len(placed) + 1)
    )
    chart = scatter_chart(label, dots if len(dots) > 1 else [], "score, seconds", f"{unit.name} per run")
    return EnergyGroup(key, kind, scope, unit, rows, crosses, chart)


def _dot(view: RowView, mark: str, unit: Unit) -> Dot:
    score = view.row.score
    interval = None if score.energy is None else score.energy.interval
    assert score.seconds is not None
    assert score.energy_j is not None
    scaled = None if interval is None else (interval[0] / unit.size, interval[1] / unit.size)
    return Dot(row_name(view.row), mark, score.seconds, score.energy_j / unit.size, score.interval, scaled)


def _row(
    view: RowView,
    ranks: tuple[int, int] | None,
    unit: Unit,
    board: Board,
    mark: str | None = None,
    is_best: bool = False,
) -> EnergyRow:
    energy, measured = view.row.score.energy, view.row.score.measured_energy
    runs = [run.energy for run in view.row.score.runs if run.energy is not None]
    reasons: tuple[tuple[str | None, str], ...] = ()
    if view.reason is not None:
        code = None if view.finding is None else view.finding.code
        kind, reasons = "unranked", ((code, f"the result is not ranked: {view.reason}"),)
    elif energy is None:
        kind, reasons = "not measured", ((None, "nothing was metered"),)
    elif energy.may_rank:
        kind = "measured"
    else:
        kind = "estimated" if energy.meter_class == "E" else "void"
        reasons = void_words(energy.void, board.ruleset.energy, board.rules)
    return EnergyRow(
        view=view,
        ranks=ranks,
        kind=kind,
        energy=energy_words(view.row.score.energy_j, unit),
        interval=_interval_words(energy, unit),
        measured=None if measured is None or measured.joules is None else energy_words(measured.joules, unit),
        measured_interval=_interval_words(measured, unit),
        meter_class="N" if energy is None else energy.meter_class,
        scope="none" if energy is None else energy.scope,
        mean_w=watt_words(None if energy is None else energy.mean_w),
        idle_w=watt_words(None if energy is None else energy.idle_w),
        share_estimated=0.0 if energy is None else energy.share_estimated,
        coverage=min((run.coverage for run in runs), default=None),
        longest_gap_s=max((run.longest_gap_s for run in runs), default=None),
        reasons=reasons,
        mark=mark,
        is_best=is_best,
    )


def _interval_words(energy: ScoreEnergy | None, unit: Unit) -> str | None:
    interval = None if energy is None else energy.interval
    return None if interval is None else TO.join(in_unit(end, unit, 3) for end in interval)


def watt_words(watts: float | None) -> str | None:
    """`312 W`; None stays None."""
    return None if watts is None else f"{significant(watts, 3)} W"
