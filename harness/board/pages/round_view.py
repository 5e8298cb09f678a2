"""Results of MLPerf rounds as the pages show them: texts, sort values and charts, ready for the templates."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.board.charts.history import history_chart
from harness.board.charts.lines import Line, line_chart, styles, thinned
from harness.board.charts.run_strip import Strip, strip_plot, strip_reach
from harness.board.charts.scales import Label
from harness.board.pages.time_view import accelerator_facts, energy_words, verdict_words
from harness.board.pages.words import JOULES, TO, plural, shown, significant, slug, unit_for
from harness.board.rounds import Note, RoundBoard, RoundEntry, RoundPart, RoundRunFacts, RoundTable
from harness.mlperf.score import minutes

MAX_CHART_POINTS = 800  # of all runs of a chart; more make no visible difference
ONE_NODE = 8  # accelerators: what one node of most systems has


@dataclass(frozen=True, slots=True)
class RoundRowView:
    """One line of a table as texts. facts: what rows are filtered by, in the names of the page's script."""

    row: RoundEntry
    href: str
    kind: str
    verdict: str
    counts: str
    reason: str | None
    note: Note | None
    time: str | None
    interval: str | None
    raw: str | None
    strip: Markup
    energy: str | None
    facts: dict[str, str]


@dataclass(frozen=True, slots=True)
class RoundTableView:
    """The rows of a table, ranked and not."""

    key: str
    table: RoundTable
    ranked: tuple[RoundRowView, ...]
    others: tuple[RoundRowView, ...]
    ranked_reach: str
    others_reach: str
    has_energy: bool

    @property
    def title(self) -> str:
        return f"{self.table.division} division, {CATEGORY_WORDS[self.table.category]}"


CATEGORY_WORDS = {
    "available": "available",
    "preview": "preview",
    "research": "research, development or internal",
    "unstated": "category not stated",
}


def minutes_words(seconds: float) -> str:
    """`12.346`: minutes with three decimals, as MLPerf prints them."""
    return f"{minutes(seconds):,.3f}"


def table_view(table: RoundTable, published: str) -> RoundTableView:
    """The table as the pages show it; the strips of the ranked rows share one scale, those of the others another."""
    key = slug([table.benchmark, table.division, table.category]).replace(".", "-")
    halves = ((True, table.ranked), (False, table.others))
    reach = {is_ranked: strip_reach([_strip(row) for row in rows]) for is_ranked, rows in halves}
    unit = unit_for((_joules(row) for row in table.rows), JOULES)
    views = []
    for number, row in enumerate(table.rows, 1):
        label = Label(f"strip-{key}-{number}", "Runs", strip_words(row))
        plot = strip_plot(label, _strip(row), reach[row.is_ranked])
        joules = _joules(row)
        views.append(row_view(row, plot, None if joules is None else energy_words(joules, unit), published))
    return RoundTableView(
        key=key,
        table=table,
        ranked=tuple(view for view in views if view.row.is_ranked),
        others=tuple(view for view in views if not view.row.is_ranked),
        ranked_reach=f"{significant(100 * reach[True], 2)} %",
        others_reach=f"{significant(100 * reach[False], 2)} %",
        has_energy=any(row.energy is not None for row in table.rows),
    )


def _joules(row: RoundEntry) -> float | None:
    return None if row.energy is None else row.energy.drawn_j


def row_view(row: RoundEntry, strip: Markup, energy: str | None, published: str) -> RoundRowView:
    """One line of a table."""
    note = next((note for note in row.findings if note.counts), None)
    kind, verdict, counts = verdict_words(row.is_ranked, row.num_errors, row.num_warnings)
    reason = None if row.is_ranked else note.messages[0][0] if note else row.why_not or "it has no score"
    return RoundRowView(
        row=row,
        href=href_of(row),
        kind=kind,
        verdict=verdict,
        counts=counts,
        reason=reason,
        note=None if row.is_ranked else note,
        time=None if row.seconds is None else minutes_words(row.seconds),
        interval=None if row.interval is None else interval_words(row.interval),
        raw=None if row.raw_seconds is None else minutes_words(row.raw_seconds),
        strip=strip,
        energy=energy,
        facts={
            "submitter": shown(row.submitter, 100),
            "system": shown(row.system, 100),
            **accelerator_facts(row.accelerator, row.num_accelerators),
            "division": row.division,
            "category": row.category,
            "date": published,
        },
    )


def href_of(row: RoundEntry) -> str:
    """The result's page, relative to the site's root."""
    return f"results/{row.slug}.html"


def interval_words(interval: tuple[float, float]) -> str:
    """The ends in minutes: `8.461 – 8.570`."""
    return f"{minutes_words(interval[0])}{TO}{minutes_words(interval[1])}"


def _strip(row: RoundEntry) -> Strip:
    counted, dropped = counted_runs(row)
    return Strip(
        counted=[run.seconds * row.factor for run in counted if run.seconds is not None],
        dropped=[run.seconds * row.factor for run in dropped if run.seconds is not None],
        num_missed=sum(run.seconds is None or not run.complies for run in row.runs),
        middle=row.seconds,
        interval=row.interval,
    )


def counted_runs(row: RoundEntry) -> tuple[list[RoundRunFacts], list[RoundRunFacts]]:
    """The runs that are in the mean, and those left out of it that have a time."""
    done = sorted(
        (run for run in row.runs if run.complies and run.seconds is not None), key=lambda run: run.seconds or 0
    )
    if row.raw_seconds is None:
        return done, []
    drop = row.num_dropped
    kept = done[drop : len(row.runs) - drop]
    return kept, [run for run in done if run not in kept]


def strip_words(row: RoundEntry) -> str:
    """The strip plot in a sentence."""
    times = sorted(run.seconds for run in row.runs if run.complies and run.seconds is not None)
    text = plural(len(row.runs), "run")
    if times:
        text += ": " + ", ".join(minutes_words(seconds) for seconds in times[:40]) + " minutes as measured"
    missed = len(row.runs) - len(times)
    return text + (f"; {missed} without a time that counts" if missed else "")


def curves_of(key: str, title: str, series: Sequence[tuple[str, Sequence[RoundRunFacts]]], like: RoundEntry) -> Markup:
    """Quality of runs over time, or over what their logs count; one colour per series. Empty without a target."""
    style = styles(len(series))
    limit = max(12, MAX_CHART_POINTS // max(1, sum(len(runs) for _, runs in series)))
    lines = [
        Line(f"{name}, {shown(run.name, 60)}", style[number], thinned(run.curve, limit), run.complies)
        for number, (name, runs) in enumerate(series)
        for run in runs
    ]
    heights = [y for line in lines for _, y in line.points]
    if like.target is None or not heights:
        return Markup()
    better = "higher" if like.direction == "max" else "lower"
    text = f"{plural(len(lines), 'curve')} of {like.quality} over {like.position}; {better} is better; the target is "
    label = Label(key, title, f"{text}{like.target:g}.")
    limits = (min(0.0, *heights), max(1.0, *heights))
    return line_chart(label, lines, like.position, like.quality, like.target, limits)


def typical_run(row: RoundEntry) -> list[RoundRunFacts]:
    """The run of a ranked result whose time is nearest to the median of those that count."""
    counted, _ = counted_runs(row)
    middle = statistics.median(run.seconds or 0.0 for run in counted)
    return [min(counted, key=lambda run: abs((run.seconds or 0.0) - middle))]


def row_name(row: RoundEntry) -> str:
    """Submitter and system in one line."""
    return f"{shown(row.submitter, 80)}, {shown(row.system, 80)}"


@dataclass(frozen=True, slots=True)
class Best:
    """The fastest ranked result of a round in a group of sizes.

    speedup: how many times as fast as that of the round before; None for the first, and where sizes have no limit.
    """

    part: RoundPart
    row: RoundEntry
    time: str
    interval: str | None
    speedup: str | None


def fastest(rows: Iterable[RoundEntry], most: int | None = None) -> RoundEntry | None:
    """The fastest ranked row, of those with at most `most` accelerators."""
    fitting = [
        row
        for row in rows
        if row.is_ranked and (most is None or (row.num_accelerators is not None and row.num_accelerators <= most))
    ]
    return min(fitting, key=lambda row: row.seconds or 0.0, default=None)


def best_of_rounds(board: RoundBoard, benchmark: str, division: str, most: int | None) -> list[Best]:
    """The fastest result of each round in which the benchmark has one, oldest round first; every category counts."""
    found: list[Best] = []
    before: float | None = None
    for part in reversed(board.rounds):
        rows = [row for row in part.entries if (row.benchmark, row.division) == (benchmark, division)]
        best = fastest(rows, most)
        if best is None or best.seconds is None:
            continue
        speedup = None if before is None or most is None else f"{before / best.seconds:.2f}"
        interval = None if best.interval is None else interval_words(best.interval)
        found.append(Best(part, best, minutes_words(best.seconds), interval, speedup))
        before = best.seconds
    return found


def best_chart(key: str, board: RoundBoard, groups: Sequence[tuple[str, Sequence[Best]]]) -> Markup:
    """The best of each round, one line per group; drawn where at least two rounds have one."""
    numbers = {part.ruleset.version: number for number, part in enumerate(reversed(board.rounds))}
    series = [
        Line(
            name,
            number,
            [(numbers[best.part.ruleset.version], minutes(best.row.seconds or 0.0)) for best in bests],
        )
        for number, (name, bests) in enumerate(groups)
    ]
    if len({number for one in series for number, _ in one.points}) < 2:
        return Markup()
    text = "Minutes of the fastest valid result of each round. The table below has the numbers."
    names = [part.name for part in reversed(board.rounds)]
    return history_chart(Label(key, "The best of each round", text), names, series, "minutes")
