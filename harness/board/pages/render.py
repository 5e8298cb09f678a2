"""Board -> the site's pages and data files, as bytes by path. The same board always gives the same bytes."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from harness.base.docstrings import pieces
from harness.base.values import mapping_or_empty
from harness.board.charts.lines import legend_swatch, target_swatch, thinned
from harness.board.compare import data_script, side_of
from harness.board.export import board_csv, board_json
from harness.board.index import Board, Entry
from harness.board.leaderboard import Table
from harness.board.pages import energy_words, time_view, words
from harness.board.pages.cost_view import PURCHASE_WORDS, CostView, cost_view
from harness.board.pages.energy_view import EnergyGroup, EnergyView, energy_view
from harness.board.pages.power_view import power_views, quality_chart
from harness.board.pages.reproduced import LINKS_LATER, REPEATS_CHIP, TALLY_LATER, reproduced_cell
from harness.board.pages.time_view import RowView, TableView
from harness.findings import Finding, Rule
from harness.ruleset.model import BenchmarkRules, Constraint
from harness.scoring.run_result import RunResult

_HERE = Path(__file__).parent
_STATIC = (
    _HERE.parents[1] / "assets" / "style.css",
    _HERE.parent / "static" / "board.js",
    _HERE.parent / "static" / "chart.js",
    _HERE.parent / "static" / "compare.js",
    _HERE.parent / "static" / "icon.svg",
)
ROWS_FIRST = 8  # of a table in its chart, and on the first page
_ANY = {"any bool": "yes or no", "any float": "any number", "any int": "any whole number", "any str": "any text"}
MAX_EVALUATION_ROWS = 200  # of a run's evaluations in a page's table; the log has all of them
CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'"
)


def renderer_of(board: Board, **names: Any) -> Renderer:
    """The renderer of a board's pages. names: what all templates know besides.

    With `is_stored` among them, pages are for a service, which keeps them, and fills in what changes when it shows one.
    """
    return Renderer(
        "",
        lambda code: rule_path(board.rules[code]) if code in board.rules else None,
        board=board,
        target_words=target_words,
        cost_words=time_view.cost_words,
        CLASS_WORDS=energy_words.CLASS_WORDS,
        COMPONENT_WORDS=energy_words.COMPONENT_WORDS,
        SCOPE_WORDS=energy_words.SCOPE_WORDS,
        PURCHASE_WORDS=PURCHASE_WORDS,
        CONVERGENCE_WORDS=time_view.CONVERGENCE_WORDS,
        reproduced_cell=reproduced_cell,
        REPEATS_CHIP=REPEATS_CHIP,
        TALLY_LATER=TALLY_LATER,
        LINKS_LATER=LINKS_LATER,
        **{"is_stored": False, **names},
    )


def result_body(board: Board, render: Renderer) -> str:
    """What the page of a result has below its navigation, for a board that has this result alone.

    render: of any board of the same rules, so that templates are compiled once.
    """
    [table], [entry] = board.leaderboard.tables, board.entries.values()
    return _result_page(render, board, entry, _aspects(board, table), "result_body.html")[1].decode()


def render_pages(board: Board) -> Iterator[tuple[str, bytes]]:
    """Path and content of every file of the site, except for the copies of submitted files."""
    render = renderer_of(board)
    tables = [_aspects(board, table) for table in board.leaderboard.tables]
    yield from static_files()
    yield "leaderboard.json", board_json(board)
    yield "leaderboard.csv", board_csv(board)
    names = sorted({aspects.time.benchmark for aspects in tables})
    yield render(
        "index.html",
        "index.html",
        sections=_sections(board, tables),
        leaders=[aspects.leaders for aspects in tables],
        without=_without_results(board, names),
    )
    for name in names:
        own = [aspects for aspects in tables if aspects.time.benchmark == name]
        stem = f"benchmarks/{benchmark_slug(name)}"
        yield f"{stem}.json", board_json(board, [aspects.table for aspects in own])
        yield f"{stem}.csv", board_csv(board, [aspects.table for aspects in own])
        yield _benchmark_page(render, stem, own)
        yield render("energy.html", f"{stem}--energy.html", name=name, rules=own[0].time.rules, sections=own)
        yield render("cost.html", f"{stem}--cost.html", name=name, rules=own[0].time.rules, sections=own)
        sides = [
            (entry.slug, side_of(entry.row, entry.logs[0] if entry.logs else None, board.ruleset))
            for aspects in own
            for entry in map(board.of, aspects.table.rows)
        ]
        yield render("compare.html", f"{stem}--compare.html", name=name, sides=sides)
        for key, side in sides:
            yield f"data/{key}.js", data_script(key, side)
    for aspects in tables:
        for row in aspects.table.rows:
            yield _result_page(render, board, board.of(row), aspects)
    yield from rules_pages(board, render)


def rules_pages(board: Board, render: Renderer) -> Iterator[tuple[str, bytes]]:
    """The pages of the rules: all checks, each of them, and the terms of each benchmark."""
    names = {table.benchmark for table in board.leaderboard.tables}
    yield render("rules.html", "rules/index.html", in_force=_in_force(board))
    for rule in board.rules.values():
        yield rule_page(render, rule, board.ruleset.codes.get(rule.code))
    for rules in board.ruleset.benchmarks.values():
        yield render(
            "benchmark_rules.html",
            f"rules/benchmark-{benchmark_slug(rules.name)}.html",
            rules=rules,
            has_results=rules.name in names,
        )


def static_files() -> Iterator[tuple[str, bytes]]:
    """What every page refers to: style, script and icon."""
    for path in _STATIC:
        yield f"static/{path.name}", path.read_bytes()


def benchmark_slug(name: str) -> str:
    """The file name of a benchmark's pages, without suffix."""
    return words.slug([name])


def rule_path(rule: Rule) -> str:
    """The page that explains a check."""
    return f"rules/{words.slug([rule.code.lower()])}.html"


@dataclass(frozen=True, slots=True)
class Aspects:
    """One table by time, by cost and by energy."""

    table: Table
    time: TableView
    cost: CostView
    energy: EnergyView
    leaders: Leaders


def _aspects(board: Board, table: Table) -> Aspects:
    time = time_view.table_view(board, table)
    cost, energy = cost_view(time), energy_view(board, time)
    return Aspects(table, time, cost, energy, leaders(time, cost, energy))


@dataclass(frozen=True, slots=True)
class Leader:
    """The first in a ranking. amount: with unit. note: what is compared. num_tied: others that may be first, too."""

    view: RowView
    amount: str
    note: str
    num_tied: int


@dataclass(frozen=True, slots=True)
class Leaders:
    """The leaders of one benchmark and division; None where no result is ranked."""

    benchmark: str
    division: str
    fastest: Leader | None
    cheapest: Leader | None
    lowest_energy_node: Leader | None
    lowest_energy_component: Leader | None


def num_first(ranks: Iterable[tuple[int, int] | None]) -> int:
    """How many rows may be first."""
    return sum(item is not None and item[0] == 1 for item in ranks)


def leaders(table: TableView, cost: CostView, energy: EnergyView) -> Leaders:
    """The first of each ranking of one table."""
    fastest = cheapest = None
    if table.ranked:
        first = table.ranked[0]
        tied = num_first([view.row.ranks for view in table.ranked]) - 1
        fastest = Leader(first, f"{first.time} {table.unit.symbol}", "", tied)
    if cost.ranked:
        row = cost.ranked[0]
        tied = num_first([other.ranks for other in cost.ranked]) - 1
        cheapest = Leader(row.view, row.usd or "", "at list price", tied)
    return Leaders(
        table.benchmark,
        table.division,
        fastest,
        cheapest,
        _lowest_energy([group for group in energy.groups if group.board == "node"]),
        _lowest_energy([group for group in energy.groups if group.board == "component"]),
    )


def _lowest_energy(groups: list[EnergyGroup]) -> Leader | None:
    """The leader of the scope with the most ranked results."""
    if not groups:
        return None
    group = groups[0]
    row = group.rows[0]
    tied = num_first([other.ranks for other in group.rows]) - 1
    return Leader(row.view, row.energy, f"class {row.meter_class}, {group.scope}", tied)


class Renderer:
    """Renders templates for a site. Every text is escaped; an undefined name in a template is an error.

    frame: what the names of the templates for navigation and footer begin with. rule_href: the page of a check's code,
    relative to the site's root. names: what all templates know.
    """

    def __init__(self, frame: str, rule_href: Callable[[str], str | None], **names: Any) -> None:
        self.environment = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        self.environment.filters.update(
            shown=words.shown, shown_lines=words.shown_lines, plural=words.plural, bytes=words.num_bytes,
            resumed=words.resumed_words,
            significant=words.significant, plain=words.plain, in_words=energy_words.in_words,
            value=words.value_words,
            allowed=allowed_words, setting=words.setting_words, benchmark_slug=benchmark_slug, ranks=words.rank_words,
            geometric_mean=statistics.geometric_mean,
        )  # fmt: skip
        self.environment.globals.update(
            frame=frame, policy=CONTENT_POLICY, rows_first=ROWS_FIRST, target_swatch=target_swatch,
            rule_href=rule_href, **names,
        )  # fmt: skip

    def __call__(self, template: str, path: str, **context: Any) -> tuple[str, bytes]:
        text = self.environment.get_template(template).render(root="../" * path.count("/"), path=path, **context)
        return path, text.encode("utf-8", "backslashreplace")


def rule_page(render: Renderer, rule: Rule, severity: str | None) -> tuple[str, bytes]:
    """The page that explains a check. severity: None where it is not in force."""
    document = pieces("\n".join(rule.document.splitlines()[1:]))
    return render("rule.html", rule_path(rule), rule=rule, severity=severity, pieces=document)


def target_words(rules: BenchmarkRules) -> str:
    """`top1_accuracy ≥ 0.9 (fraction, higher is better)`."""
    metric = rules.metric
    sign, better = ("≥", "higher") if metric.direction == "max" else ("≤", "lower")
    kind = ", provisional" if rules.provisional else ""
    return f"{metric.name} {sign} {rules.target:g} ({metric.unit}, {better} is better{kind})"


def _sections(board: Board, tables: list[Aspects]) -> list[dict[str, Any]]:
    """The sections of the index: one per benchmark, with a table per division."""
    names = list(dict.fromkeys(aspects.time.benchmark for aspects in tables))
    return [
        {
            "name": name,
            "rules": board.ruleset.benchmarks[name],
            "tables": [aspects.time for aspects in tables if aspects.time.benchmark == name],
        }
        for name in names
    ]


def _without_results(board: Board, names: list[str]) -> list[BenchmarkRules]:
    return [rules for name, rules in sorted(board.ruleset.benchmarks.items()) if name not in names]


def _in_force(board: Board) -> list[tuple[str, str | None, Rule | None]]:
    """Every code of the ruleset or the registry; its severity if in force; its check if installed."""
    codes = sorted({*board.ruleset.codes, *board.rules})
    return [(code, board.ruleset.codes.get(code), board.rules.get(code)) for code in codes]


def _benchmark_page(render: Renderer, stem: str, own: list[Aspects]) -> tuple[str, bytes]:
    sections = []
    for aspects in own:
        view = aspects.time
        in_chart = view.ranked[:ROWS_FIRST]
        series = [(time_view.row_name(row.row), row.row.score.runs) for row in in_chart]
        sections.append(
            {
                "view": view,
                "leaders": aspects.leaders,
                "in_chart": in_chart,
                "curves": time_view.curves(f"curves-{view.key}", "Quality over time", series, view.rules),
                "picked": {row.entry.slug: legend_swatch(number) for number, row in enumerate(in_chart)},
            }
        )
    first = own[0].time
    return render("benchmark.html", f"{stem}.html", name=first.benchmark, rules=first.rules, sections=sections)


def _result_page(
    render: Renderer, board: Board, entry: Entry, aspects: Aspects, template: str = "result.html"
) -> tuple[str, bytes]:
    table = aspects.table
    rules = board.ruleset.benchmarks[table.benchmark]
    score = entry.row.score
    alone = time_view.table_view(board, Table(table.benchmark, table.division, (entry.row,)))
    [view] = alone.ranked or alone.others
    is_mean = score.seconds is not None
    runs = [(run, is_mean and index not in score.left_out) for index, run in enumerate(score.runs)]
    series = [(time_view.run_name(run), [run]) for run in score.runs]
    config, numerics = (entry.logs[0].config, entry.logs[0].numerics) if entry.logs else ({}, {})
    curves, has_power = quality_chart(entry, series, rules)
    return render(
        template,
        entry.page,
        entry=entry,
        view=view,
        unit=alone.unit,
        table=table,
        rules=rules,
        runs=runs,
        findings=_by_code(entry.row.findings),
        curves=curves,
        has_power=has_power,
        power=power_views(entry, board),
        by_energy=aspects.energy.of(entry),
        by_cost=aspects.cost.of(entry),
        legend=time_view.swatches([name for name, _ in series], rules.target),
        points=[(time_view.run_name(run), len(run.evaluations), _evaluations(run)) for run in score.runs],
        ledger=time_view.ledger_chart("ledger", score.runs),
        phases=[
            (phase, time_view.PHASE_WORDS[phase])
            for phase in time_view.PHASES
            if phase != "interrupted" or any(phase in run.ledger for run in score.runs)
        ],
        ledgers=[
            (time_view.run_name(run), dict(time_view.phases_of(run)), run.run_s, run.data_wait_fraction)
            for run in score.runs
        ],
        hyperparameters=_hyperparameters(config, rules),
        config=[
            (name, value) for name, value in sorted(config.items()) if name not in ("hyperparameters", "execution")
        ],
        execution=sorted(mapping_or_empty(config.get("execution")).items()),
        numerics=[
            (part, rows) for part, value in numerics.items() if (rows := sorted(mapping_or_empty(value).items()))
        ],
        folder_of_logs=next((item.target.rpartition("/")[0] for item in entry.downloads), entry.folder),
        ruleset_argument=shlex.quote(board.ruleset.version),
        page_of=lambda path: board.entries[path].page,
    )


def _by_code(findings: Iterable[Finding]) -> list[list[Finding]]:
    """The findings in order, grouped by code, severity and waiver."""
    groups: dict[tuple[str, str, str | None], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.code, finding.severity, finding.waived), []).append(finding)
    return list(groups.values())


def _evaluations(run: RunResult) -> list[tuple[int, float, float]]:
    """At most 200 of the run's evaluations, evenly spaced, including the first and the last."""
    numbers = thinned([(float(index), 0.0) for index in range(len(run.evaluations))], MAX_EVALUATION_ROWS)
    points = [run.evaluations[int(index)] for index, _ in numbers]
    return [(point.samples, point.seconds, point.quality) for point in points]


def allowed_words(constraint: Constraint) -> str:
    """What the closed division permits, in a reader's words."""
    if constraint.fixed:
        return f"fixed at {words.value_words(constraint.default)}"
    return _ANY.get(constraint.allowed, constraint.allowed)


def _hyperparameters(config: Any, rules: BenchmarkRules) -> list[dict[str, object]]:
    """Name, value, and, for names in the rules, the reference's value and what the closed division permits.

    Those that differ from the reference come first.
    """
    values = config.get("hyperparameters")
    if not isinstance(values, dict):
        return []
    rows: list[dict[str, object]] = []
    for name, value in sorted(values.items()):
        constraint = rules.hyperparameters.get(name)
        rows.append(
            {
                "name": name,
                "value": value,
                "default": None if constraint is None else constraint.default,
                "allowed": "not in the rules" if constraint is None else allowed_words(constraint),
                "differs": constraint is None or value != constraint.default,
            }
        )
    rows.sort(key=lambda row: not row["differs"])
    return rows
