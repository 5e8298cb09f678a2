"""The ranking by time as the pages show it: texts, sort values and charts, ready for the templates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from markupsafe import Markup

from harness.base.values import positive_int
from harness.board.charts.lines import (
    NUM_COLOURS,
    Bar,
    Line,
    bar_chart,
    legend_swatch,
    line_chart,
    styles,
    target_swatch,
)
from harness.board.charts.run_strip import Strip, strip_plot, strip_reach
from harness.board.charts.scales import Label
from harness.board.index import Board, Entry
from harness.board.leaderboard import Row, Table
from harness.board.pages.words import JOULES, SECONDS, TO, Unit, in_unit, plural, shown, significant, slug, unit_for
from harness.board.reproductions import Tally, tally
from harness.energy.score import ScoreEnergy
from harness.findings import Finding
from harness.ruleset.model import BenchmarkRules
from harness.scoring.run_result import RunResult
from harness.scoring.score import Score

PHASES = ("init", "data", "train", "eval", "checkpoint", "interrupted", "other")
PHASE_WORDS = {
    "init": "initialisation, before the clock",
    "data": "opening and waiting for data",
    "train": "training",
    "eval": "evaluation",
    "checkpoint": "checkpoints, and the way back to one",
    "interrupted": "lost by an interruption, and the time away",
    "other": "attributed to no phase",
}


CONVERGENCE_WORDS = {
    "too fast": "Neither luck nor tuning explains so few",
    "faster": "These are significantly fewer, by luck or tuning, which gains nothing",
    "as expected": "The difference is not significant",
    "slower": "These are significantly more",
}


@dataclass(frozen=True, slots=True)
class RowView:
    """One line of a table as texts.

    kind: "valid", "invalid" or "unscored". counts: its errors and warnings in words; empty if there are none.
    reason: why it is not ranked; None where it is. time: the score; measured: the time as measured.
    energy_group: energies are sorted within a group only; None where the energy may not be compared at all.
    facts: what the page's filters choose by. tally: of its reproductions; is_reproduction: it repeats another result.
    """

    row: Row
    entry: Entry
    href: str
    kind: str
    verdict: str
    counts: str
    reason: str | None
    finding: Finding | None
    time: str | None
    interval: str | None
    measured: str | None
    measured_interval: str | None
    strip: Markup
    energy: str
    cost: str
    samples: str | None
    missed: int
    energy_group: str | None
    facts: Mapping[str, str]
    tally: Tally
    is_reproduction: bool


@dataclass(frozen=True, slots=True)
class TableView:
    """The rows of a table, ranked and not, with the unit and the scales of their columns."""

    key: str
    benchmark: str
    division: str
    rules: BenchmarkRules
    unit: Unit
    ranked: tuple[RowView, ...]
    others: tuple[RowView, ...]
    ranked_reach: str
    others_reach: str


def table_view(board: Board, table: Table) -> TableView:
    """The table as the pages show it; the strips of the ranked rows share one scale, those of the others another."""
    key = slug([table.benchmark, table.division]).replace(".", "-")
    times = [row.score.seconds for row in table.rows]
    runs = [run.seconds for row in table.rows for run in row.score.runs]
    unit, energy_unit = unit_for([*times, *runs], SECONDS), unit_for((row.score.energy_j for row in table.rows), JOULES)
    reach = {
        is_ranked: strip_reach([strip_of(row.score) for row in table.rows if row.is_ranked is is_ranked])
        for is_ranked in (True, False)
    }
    views = []
    for number, row in enumerate(table.rows, 1):
        label = Label(f"strip-{key}-{number}", "Runs", strip_words(row.score, unit))
        plot = strip_plot(label, strip_of(row.score), reach[row.is_ranked])
        views.append(_row_view(board, row, unit, energy_unit, plot))
    return TableView(
        key=key,
        benchmark=table.benchmark,
        division=table.division,
        rules=board.ruleset.benchmarks[table.benchmark],
        unit=unit,
        ranked=tuple(view for view in views if view.kind == "valid"),
        others=tuple(view for view in views if view.kind != "valid"),
        ranked_reach=f"{significant(100 * reach[True], 2)} %",
        others_reach=f"{significant(100 * reach[False], 2)} %",
    )


def _row_view(board: Board, row: Row, unit: Unit, energy_unit: Unit, plot: Markup) -> RowView:
    entry, score = board.of(row), row.score
    counted = next((finding for finding in row.findings if finding.counts), None)
    kind, verdict, counts = verdict_words(row.is_ranked, row.num_errors, row.num_warnings)
    return RowView(
        row=row,
        entry=entry,
        href=entry.page,
        kind=kind,
        verdict=verdict,
        counts=counts,
        reason=None if kind == "valid" else counted.message if counted else score.why_not or "it has no score",
        finding=counted,
        time=None if score.seconds is None else in_unit(score.seconds, unit),
        interval=None if score.interval is None else interval_words(score.interval, unit),
        measured=None if score.measured_seconds is None else in_unit(score.measured_seconds, unit),
        measured_interval=None if score.measured_interval is None else interval_words(score.measured_interval, unit),
        strip=plot,
        energy=energy_words(score.energy_j, energy_unit),
        cost=cost_words(score.usd),
        samples=None if score.samples is None else f"{round(score.samples):,}",
        missed=sum(run.seconds is None for run in score.runs),
        energy_group=energy_group(score.energy),
        facts=facts_of(row, entry),
        tally=tally(row.links.reproductions),
        is_reproduction=row.repeatable is not None and row.repeatable.repeats is not None,
    )


def verdict_words(is_ranked: bool, num_errors: int, num_warnings: int) -> tuple[str, str, str]:
    """Kind, verdict and counts of a row, see `RowView`."""
    if is_ranked:
        kind, verdict = "valid", "valid"
    elif num_errors:
        kind, verdict = "invalid", "not valid"
    else:
        kind, verdict = "unscored", "no score"
    counts = [plural(number, noun) for number, noun in ((num_errors, "error"), (num_warnings, "warning")) if number]
    return kind, verdict, ", ".join(counts)


def energy_group(energy: ScoreEnergy | None) -> str | None:
    """Energies of one group may be compared, whole nodes before components; None for one that compares with none."""
    if energy is None or not energy.may_rank:
        return None
    return f"{0 if energy.board == 'node' else 1} {energy.scope}"


def facts_of(row: Row, entry: Entry) -> dict[str, str]:
    """What a reader may filter by; empty texts for what is not known."""
    return {
        "submitter": shown(row.submitter, 100),
        "system": shown(row.system, 100),
        **accelerator_facts(*accelerators_of(entry.system or {})),
        "division": shown(row.score.division, 40),
        "date": entry.date or "",
    }


def accelerators_of(system: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """Model and number of all nodes' accelerators.

    None where the description does not say; (None, 0) where it has none.
    """
    model, nodes = system.get("accelerator_model_name"), positive_int(system.get("number_of_nodes"))
    per_node = system.get("accelerators_per_node")
    if per_node in (0, "0"):
        return None, 0
    count = positive_int(per_node)
    return model if isinstance(model, str) and model else None, count * nodes if count and nodes else None


def accelerator_facts(model: str | None, count: int | None) -> dict[str, str]:
    """What `accelerators_of` found, in words; empty where the description does not say."""
    return {
        "accelerator": "none" if count == 0 else shown(model or "", 80),
        "count": "" if count is None else str(count),
    }


def interval_words(interval: tuple[float, float], unit: Unit) -> str:
    """`8.46 – 8.57`."""
    return f"{in_unit(interval[0], unit)}{TO}{in_unit(interval[1], unit)}"


def energy_words(energy_j: float | None, unit: Unit) -> str:
    """A missing energy is "not measured", never 0."""
    return "not measured" if energy_j is None else f"{in_unit(energy_j, unit, 3)} {unit.symbol}"


def cost_words(usd: Decimal | None) -> str:
    """US dollars to the cent, amounts below one dollar to two digits; a missing cost is "no price", never 0."""
    if usd is None:
        return "no price"
    return f"$ {usd:,.2f}" if usd >= 1 or usd == 0 else f"$ {significant(float(usd), 2)}"


def strip_of(score: Score) -> Strip:
    """What each run contributes to the score, for its strip plot; a pace score drops no run that reached its target."""
    reached = [
        (index, seconds) for index, run in enumerate(score.runs) if (seconds := score.seconds_of(run)) is not None
    ]
    return Strip(
        counted=[seconds for index, seconds in reached if index not in score.left_out],
        dropped=[seconds for index, seconds in reached if index in score.left_out],
        num_missed=len(score.runs) - len(reached),
        middle=score.seconds or (sum(seconds for _, seconds in reached) / len(reached) if reached else None),
        interval=score.interval,
    )


def strip_words(score: Score, unit: Unit) -> str:
    """The strip plot in a sentence."""
    times = sorted(seconds for run in score.runs if (seconds := score.seconds_of(run)) is not None)
    missed = sum(run.seconds is None for run in score.runs)
    text = plural(len(score.runs), "run")
    if times:
        text += ": " + ", ".join(in_unit(seconds, unit) for seconds in times) + f" {unit.name}"
        text += "" if score.scored_samples is None else f" for {score.scored_samples:,.0f} samples"
    resumed = sum(run.num_resumed > 0 for run in score.runs)
    text += f"; {resumed} resumed after an interruption" if resumed else ""
    return text + (f"; {missed} missed the target" if missed else "")


def run_name(run: RunResult) -> str:
    """The log's file name."""
    return PurePath(run.path).name


def points_of(run: RunResult) -> list[tuple[float, float]]:
    """The run's quality curve: seconds and quality; points that are not finite are left out (a check reports them)."""
    return [
        (point.seconds, point.quality)
        for point in run.evaluations
        if math.isfinite(point.seconds) and math.isfinite(point.quality)
    ]


def curve_lines(series: Sequence[tuple[str, Sequence[RunResult]]]) -> list[Line]:
    """The quality curves of runs, one colour per series."""
    return [
        Line(f"{name}, {run_name(run)}", style, points_of(run), run.seconds is not None)
        for style, (name, runs) in zip(styles(len(series)), series, strict=True)
        for run in runs
    ]


def curves(key: str, title: str, series: Sequence[tuple[str, Sequence[RunResult]]], rules: BenchmarkRules) -> Markup:
    """Quality over time: one colour per series, one line per run."""
    lines = curve_lines(series)
    metric = rules.metric
    better = "higher" if metric.direction == "max" else "lower"
    text = f"{plural(len(lines), 'curve')} of {metric.name} over seconds since run_start; {better} is better"
    label = Label(key, title, f"{text}; the target is {rules.target:g}. The table below has the numbers.")
    return line_chart(
        label, lines, "seconds since run_start", f"{metric.name} ({metric.unit})", rules.target, rules.quality_range
    )


def row_name(row: Row) -> str:
    """Submitter and system in one line."""
    return f"{shown(row.submitter, 80)}, {shown(row.system, 80)}"


def phases_of(run: RunResult) -> list[tuple[str, float]]:
    """The run's clock ledger in the order of the phases; a negative remainder is shown as 0 (a check reports it)."""
    ledger = {name.removesuffix("_s"): seconds for name, seconds in run.ledger.items()}
    return [(phase, max(0.0, ledger[phase])) for phase in PHASES if phase in ledger and math.isfinite(ledger[phase])]


def mean_phases(score: Score) -> dict[str, float]:
    """Mean seconds of each phase, over the runs that count in the score."""
    counted = [dict(phases_of(run)) for index, run in enumerate(score.runs) if index not in score.left_out]
    ledgers = [ledger for ledger in counted if ledger]
    return {
        phase: math.fsum(ledger.get(phase, 0.0) for ledger in ledgers) / len(ledgers)
        for phase in PHASES
        if any(phase in ledger for ledger in ledgers)
    }


def ledger_chart(key: str, runs: Sequence[RunResult]) -> Markup:
    """The clock ledgers as stacked bars."""
    bars = [Bar(run_name(run).removesuffix(".txt").replace("result_", "run "), phases_of(run)) for run in runs]
    bars = [bar for bar in bars if bar.parts]
    text = f"Seconds by phase of {plural(len(bars), 'run')}. The table below has the numbers."
    return bar_chart(Label(key, "Clock ledger", text), bars, "seconds")


def swatches(series: Sequence[str], target: float | None) -> list[tuple[Markup, str]]:
    """A legend: a line sample and a name for the target and for each series; one for all of too many."""
    pieces = [(legend_swatch(style), name) for style, name in zip(styles(len(series)), series, strict=True)]
    if len(series) > NUM_COLOURS:
        pieces = [(legend_swatch(None), f"{plural(len(series), 'run')}, each a line")]
    return pieces if target is None else [(target_swatch(), f"target {target:g}"), *pieces]
