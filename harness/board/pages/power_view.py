"""The power section of a result's page: charts with their tables, meters, and void reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.board.charts.lines import legend_swatch, styles
from harness.board.charts.power import component_chart, quality_and_power, time_axis
from harness.board.charts.scales import Label, Scale
from harness.board.index import Board, Entry
from harness.board.pages import time_view
from harness.board.pages.energy_view import watt_words
from harness.board.pages.energy_words import COMPONENT_WORDS, void_words
from harness.board.pages.power_facts import MeterFact, RunPower
from harness.board.pages.power_trace import PowerTrace
from harness.board.pages.words import JOULES, Unit, in_unit, plural, significant, unit_for
from harness.ruleset.model import BenchmarkRules
from harness.scoring.run_result import RunResult

_TABLE_ROWS = 24  # of the power over time, for readers who cannot see the chart


@dataclass(frozen=True, slots=True)
class PowerView:
    """The energy of one run as the page shows it. watts: seconds since `run_start`, then watts per line, or "gap".

    void: reasons in words, each with the code of its check. columns: of `watts`, after the time.
    """

    log: str
    facts: RunPower
    energy: str
    half: str | None
    mean_w: str | None
    idle_w: str | None
    void: tuple[tuple[str | None, str], ...]
    components: tuple[tuple[str, str, str | None, str], ...]
    meters: tuple[tuple[MeterFact, str | None], ...]
    chart: Markup
    legend: tuple[tuple[Markup, str], ...]
    columns: tuple[str, ...]
    watts: tuple[tuple[str, ...], ...]
    has_gaps: bool


def quality_chart(
    entry: Entry, series: Sequence[tuple[str, Sequence[RunResult]]], rules: BenchmarkRules
) -> tuple[Markup, bool]:
    """The quality of every run over time, with the power below it if it was metered; whether it was."""
    colours = dict(zip((name for name, _ in series), styles(len(series)), strict=True))
    traces = [(colours[item.log], item.log, item.trace) for item in entry.power if item.trace is not None]
    if not traces:
        return time_view.curves("curves", "Quality over time", series, rules), False
    lines = time_view.curve_lines(series)
    name = f"{rules.metric.name} ({rules.metric.unit})"
    text = (
        f"{plural(len(lines), 'run')}: {rules.metric.name} above and the power of all nodes below, over "
        f"seconds since run_start; the target is {rules.target:g}. The tables below have the numbers."
    )
    label = Label("curves", "Quality and power over time", text)
    chart = quality_and_power(label, lines, traces, name, rules.target, rules.quality_range, _idle(entry))
    return chart, True


def power_views(entry: Entry, board: Board) -> list[PowerView]:
    """One view for each run that was metered."""
    unit = unit_for([item.energy.joules for item in entry.power], JOULES)
    traces = [item.trace for item in entry.power if item.trace is not None]
    axis = time_axis(traces) if traces else None
    found = []
    for number, item in enumerate(entry.power):
        energy = item.energy
        chart, legend, columns, watts, has_gaps = _chart(item, number, axis)
        found.append(
            PowerView(
                log=item.log,
                facts=item,
                energy=time_view.energy_words(energy.joules, unit),
                half=_half(energy.uncertainty_j, unit),
                mean_w=watt_words(energy.mean_w),
                idle_w=watt_words(item.idle_w),
                void=void_words(energy.void, board.ruleset.energy, board.rules),
                components=tuple(_component(*part, energy.joules, unit) for part in item.by_component),
                meters=tuple((meter, _joules(meter, unit)) for meter in item.meters),
                chart=chart,
                legend=legend,
                columns=columns,
                watts=watts,
                has_gaps=has_gaps,
            )
        )
    return found


def _idle(entry: Entry) -> float | None:
    return next((item.idle_w for item in entry.power if item.idle_w is not None), None)


def _joules(meter: MeterFact, unit: Unit) -> str | None:
    if meter.joules is None:
        return None
    half = "" if meter.uncertainty_j is None else f" ± {in_unit(meter.uncertainty_j, unit, 2)}"
    return f"{in_unit(meter.joules, unit, 4)}{half} {unit.symbol}"


def _component(
    name: str, joules: float | None, half_j: float | None, total_j: float | None, unit: Unit
) -> tuple[str, str, str | None, str]:
    """Name, joules, half width, share of the total."""
    share = "–" if joules is None or not total_j else f"{100 * joules / total_j:.1f} %"
    amount = "not known" if joules is None else f"{in_unit(joules, unit, 4)} {unit.symbol}"
    return name, amount, _half(half_j, unit), share


def _half(half_j: float | None, unit: Unit) -> str | None:
    return None if half_j is None else f"± {in_unit(half_j, unit, 2)} {unit.symbol}"


def _chart(
    item: RunPower, number: int, axis: Scale | None
) -> tuple[Markup, tuple[tuple[Markup, str], ...], tuple[str, ...], tuple[tuple[str, ...], ...], bool]:
    trace = item.trace
    if trace is None or axis is None:
        return Markup(), (), (), (), False
    lines = [*trace.lines, *([trace.total] if len(trace.lines) > 1 else [])]
    names = tuple(COMPONENT_WORDS.get(line.name, line.name) for line in lines)
    has_gaps = any(_is_gap_within(trace, index) for index in range(len(trace.total.steps)))
    text = f"Watts of {item.log} over seconds since run_start: {', '.join(names)}"
    text += "; gaps in a line mean no reading" if has_gaps else ""
    label = Label(f"watts-{number}", f"Power, {item.log}", f"{text}. The table below has the numbers.")
    chart = component_chart(label, trace, item.idle_w, axis)
    legend = tuple((legend_swatch(place), name) for place, name in enumerate(names))
    count = len(trace.total.steps)
    chosen = sorted({round(place * (count - 1) / (_TABLE_ROWS - 1)) for place in range(_TABLE_ROWS)})
    watts = tuple(
        (
            f"{trace.at(index):.1f}",
            *("gap" if (step := line.steps[index]) is None else significant(step.mean_w, 4) for line in lines),
        )
        for index in chosen
    )
    return chart, legend, names, watts, has_gaps


def _is_gap_within(trace: PowerTrace, index: int) -> bool:
    return trace.total.steps[index] is None and 0 <= trace.at(index) <= trace.run_s
