"""RoundBoard -> the pages and data files of the site of MLPerf rounds. The same board always gives the same bytes."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.board.charts.lines import legend_swatch
from harness.board.compare import data_script, side_of_round
from harness.board.export import csv_bytes, json_bytes
from harness.board.pages import round_view, time_view, words
from harness.board.pages.energy_words import void_words
from harness.board.pages.render import (
    ROWS_FIRST,
    Renderer,
    benchmark_slug,
    rule_page,
    rule_path,
    static_files,
)
from harness.board.pages.round_view import Best, RoundRowView, RoundTableView
from harness.board.pages.words import JOULES, SECONDS
from harness.board.rounds import Note, RoundBoard, RoundEntry, RoundPart, key_of
from harness.findings import Rule
from harness.mlperf.score import minutes

FORMAT_VERSION = 1
COLUMNS = (
    "round", "benchmark", "division", "category", "rank_first", "rank_last", "submitter", "system", "accelerator",
    "accelerators", "nodes", "valid", "errors", "warnings", "minutes", "minutes_low", "minutes_high", "raw_minutes",
    "factor", "convergence", "convergence_by_the_text", "batch_size", "runs", "runs_that_count", "published_j",
    "rule_j", "drawn_j", "why_not", "place", "page",
)  # fmt: skip
SIZES = (("all sizes", None), (f"at most {round_view.ONE_NODE} accelerators", round_view.ONE_NODE), ("at most 64", 64))


def render_round_pages(board: RoundBoard) -> Iterator[tuple[str, bytes]]:
    """Path and content of every file of the site."""
    used = {note.code for entry in board.entries for note in (*entry.findings, *entry.suspicions)}
    known = {**board.signals, **board.rules}
    shown = {code for part in board.rounds for code in part.ruleset.codes} | used
    render = Renderer(
        "round_",
        lambda code: rule_path(known[code]) if code in shown else None,
        board=board,
        round_path=round_path,
        rule_title=lambda code: known[code].title,
        minutes_words=round_view.minutes_words,
        CATEGORY_WORDS=round_view.CATEGORY_WORDS,
    )
    names = sorted({entry.benchmark for entry in board.entries})
    views = {
        part.ruleset.version: [round_view.table_view(table, part.round.published) for table in part.tables]
        for part in board.rounds
    }
    yield from static_files()
    yield render("round_index.html", "index.html", benchmarks=[_overview(board, name) for name in names])
    for part in board.rounds:
        own = views[part.ruleset.version]
        yield f"rounds/{words.slug([part.name])}.json", _json(part)
        yield f"rounds/{words.slug([part.name])}.csv", _csv(part)
        yield _round_page(render, part, own)
        for name in sorted({view.table.benchmark for view in own}):
            yield _tables_page(render, part, name, [view for view in own if view.table.benchmark == name])
            yield from _compare_pages(render, part, name)
    for name in names:
        yield _benchmark_page(render, board, name)
    yield from _submitter_pages(render, board)
    lines: dict[tuple[object, ...], list[tuple[RoundPart, RoundEntry]]] = {}
    for part in reversed(board.rounds):
        for entry in part.entries:
            lines.setdefault(entry.line, []).append((part, entry))
    for part in board.rounds:
        for view in views[part.ruleset.version]:
            for row in (*view.ranked, *view.others):
                yield _result_page(render, board.rules, part, row, lines[row.row.line])
    yield render("round_rules.html", "rules/index.html", codes=_codes(board, sorted(shown)))
    for code in sorted(shown):
        yield rule_page(render, known[code], _severity(board, code))


def round_path(part: RoundPart, benchmark: str | None = None) -> str:
    """The page of a round, or of one benchmark in it."""
    if benchmark is None:
        return f"rounds/{words.slug([part.name])}.html"
    return f"benchmarks/{words.slug([benchmark, part.name])}.html"


def _severity(board: RoundBoard, code: str) -> str | None:
    """The severity of a check in the newest round that has it; None for a signal of the audit."""
    return next((part.ruleset.codes[code] for part in board.rounds if code in part.ruleset.codes), None)


def _codes(board: RoundBoard, codes: Iterable[str]) -> list[tuple[str, str | None, int]]:
    """Code, severity, and how many results have it."""
    results = Counter(
        code for entry in board.entries for code in {note.code for note in (*entry.findings, *entry.suspicions)}
    )
    return [(code, _severity(board, code), results[code]) for code in codes]


@dataclass(frozen=True, slots=True)
class _Overview:
    """A benchmark on the first page: the fastest of each round, newest first, in the closed division."""

    name: str
    bests: dict[str, Best]
    num_results: int
    num_valid: int


def _overview(board: RoundBoard, name: str) -> _Overview:
    rows = [entry for entry in board.entries if entry.benchmark == name]
    bests = round_view.best_of_rounds(board, name, "closed", None)
    return _Overview(
        name, {best.part.ruleset.version: best for best in bests}, len(rows), sum(row.is_ranked for row in rows)
    )


def _benchmark_page(render: Renderer, board: RoundBoard, name: str) -> tuple[str, bytes]:
    """The history of one benchmark, and its tables' first rows in each round."""
    sections = []
    for division in ("closed", "open"):
        groups = [(label, round_view.best_of_rounds(board, name, division, most)) for label, most in SIZES]
        if not groups[0][1]:
            continue
        key = words.slug([name, division]).replace(".", "-")
        sections.append(
            {
                "division": division,
                "chart": round_view.best_chart(f"best-{key}", board, groups),
                "legend": [(legend_swatch(number), label) for number, (label, bests) in enumerate(groups) if bests],
                "groups": [(label, list(reversed(bests))) for label, bests in groups if bests],
            }
        )
    parts = []
    for part in board.rounds:
        rows = [row for row in part.entries if row.benchmark == name]
        if rows:
            rules = part.round.benchmarks[name]
            target = rules.target()
            parts.append((part, rules, None if target is None else target.text, rows))
    return render(
        "round_benchmark.html", f"benchmarks/{benchmark_slug(name)}.html", name=name, sections=sections, parts=parts
    )


def _tables_page(render: Renderer, part: RoundPart, name: str, own: Sequence[RoundTableView]) -> tuple[str, bytes]:
    """Every result of one benchmark in one round."""
    sections = []
    for view in own:
        ranked = view.ranked
        in_chart = [row for row in ranked if row.row.position == ranked[0].row.position][:ROWS_FIRST]  # one axis
        series = [(round_view.row_name(row.row), round_view.typical_run(row.row)) for row in in_chart]
        curves = (
            round_view.curves_of(f"curves-{view.key}", "Quality over time", series, in_chart[0].row) if in_chart else ""
        )
        sections.append(
            {
                "view": view,
                "in_chart": in_chart,
                "curves": curves,
                "picked": {row.row.slug: legend_swatch(number) for number, row in enumerate(in_chart)}
                if curves
                else {},
            }
        )
    rules = part.round.benchmarks[name]
    target = rules.target()
    return render(
        "round_tables.html",
        round_path(part, name),
        name=name,
        part=part,
        rules=rules,
        target=None if target is None else target.text,
        sections=sections,
        compare=compare_path(part, name).rpartition("/")[2],
    )


def _compare_pages(render: Renderer, part: RoundPart, name: str) -> Iterator[tuple[str, bytes]]:
    """Any two results of one benchmark in one round, compared, and what the page needs of each."""
    rows = [row for row in part.entries if row.benchmark == name and row.seconds is not None]
    sides = [(row.slug, side_of_round(row)) for row in rows]
    yield render("round_compare.html", compare_path(part, name), name=name, part=part, sides=sides)
    for key, side in sides:
        yield f"data/{key}.js", data_script(key, side)


def compare_path(part: RoundPart, benchmark: str) -> str:
    """The page that compares two results of a benchmark in a round."""
    return f"{round_path(part, benchmark).removesuffix('.html')}--compare.html"


def _round_page(render: Renderer, part: RoundPart, own: Sequence[RoundTableView]) -> tuple[str, bytes]:
    entries = part.entries
    errors = Counter(note.code for row in entries for note in row.findings if note.counts)
    warnings = Counter(
        code for row in entries for code in dict.fromkeys(note.code for note in row.findings if not note.counts)
    )
    signals = Counter(note.code for row in entries for note in row.suspicions)
    order = sorted(
        ((note, row) for row in entries for note in row.suspicions),
        key=lambda pair: (-(pair[0].score or 0.0), pair[1].place, pair[0].code),
    )
    worst: dict[str, tuple[Note, RoundEntry]] = {}  # of each signal its worst
    for note, row in order:
        worst.setdefault(note.code, (note, row))
    return render(
        "round_round.html",
        round_path(part),
        part=part,
        num_logs=sum(len(row.runs) for row in entries),
        names=[
            (name, [view for view in own if view.table.benchmark == name])
            for name in sorted({view.table.benchmark for view in own})
        ],
        submitters=_by_submitter(entries),
        errors=errors.most_common(),
        warnings=warnings.most_common(),
        signals=signals.most_common(),
        worst=list(worst.values())[:10],
        file=words.slug([part.name]),
    )


def _by_submitter(entries: Iterable[RoundEntry]) -> list[tuple[str, str, int, int]]:
    """Name, page, results, valid results."""
    found: dict[str, list[RoundEntry]] = {}
    for entry in entries:
        found.setdefault(entry.submitter, []).append(entry)
    return [
        (name, submitter_path(name), len(rows), sum(row.is_ranked for row in rows))
        for name, rows in sorted(found.items(), key=lambda item: key_of(item[0]))
    ]


def submitter_path(name: str) -> str:
    """The page of a submitter, whose name may be written differently from round to round."""
    return f"submitters/{words.slug([key_of(name)])}.html"


def _submitter_pages(render: Renderer, board: RoundBoard) -> Iterator[tuple[str, bytes]]:
    """The history of each submitter's machines: one line per benchmark, division, accelerator and number of them."""
    found: dict[str, list[tuple[RoundPart, RoundEntry]]] = {}
    for part in reversed(board.rounds):
        for entry in part.entries:
            found.setdefault(key_of(entry.submitter), []).append((part, entry))
    listed = []
    for _, rows in sorted(found.items()):
        name = rows[-1][1].submitter
        parts = list({part.name: part for part, _ in rows}.values())
        lines: dict[tuple[object, ...], dict[str, list[RoundEntry]]] = {}
        for part, entry in rows:
            lines.setdefault(entry.line, {}).setdefault(part.name, []).append(entry)
        machines: dict[str, list[dict[str, Any]]] = {}
        for by_round in lines.values():
            first = next(iter(by_round.values()))[0]
            best = {part: round_view.fastest(own) or own[0] for part, own in by_round.items()}
            machines.setdefault(first.accelerator or first.system, []).append(
                {
                    "row": first,
                    "cells": [(best.get(part.name), len(by_round.get(part.name, ())) - 1) for part in parts],
                    "speedup": _speedup(list(best.values())),
                }
            )
        path = submitter_path(name)
        entries = [entry for _, entry in rows]
        listed.append((name, path, entries, len({entry.machine for entry in entries}), len(parts)))
        yield render(
            "round_submitter.html",
            path,
            name=name,
            parts=parts,
            machines=[
                (machine, sorted(own, key=lambda line: (line["row"].benchmark, line["row"].num_accelerators or 0)))
                for machine, own in sorted(machines.items())
            ],
        )
    yield render("round_submitters.html", "submitters/index.html", listed=listed)


def _speedup(rows: Sequence[RoundEntry]) -> str | None:
    """How many times as fast the last ranked result is as the first; None unless there are two."""
    ranked = [row.seconds for row in rows if row.is_ranked and row.seconds]
    return f"{ranked[0] / ranked[-1]:.2f}" if len(ranked) > 1 else None


def _result_page(
    render: Renderer,
    rules: Mapping[str, Rule],
    part: RoundPart,
    view: RoundRowView,
    line: Sequence[tuple[RoundPart, RoundEntry]],
) -> tuple[str, bytes]:
    row = view.row
    series = [(words.shown(run.name, 60), [run]) for run in row.runs]
    counted, _ = round_view.counted_runs(row)
    energy = row.energy
    unit = words.unit_for(() if energy is None else (energy.drawn_j, energy.rule_j, energy.published_j), JOULES)
    energies = (
        []
        if energy is None
        else [
            (name, None if value is None else f"{words.in_unit(value, unit, 5)} {unit.symbol}")
            for name, value in (
                ("published: MLCommons' program of May 2024", energy.published_j),
                ("by the text of the rule", energy.rule_j),
                ("drawn: from run_start to run_stop", energy.drawn_j),
            )
        ]
    )
    curves = round_view.curves_of("curves", "Quality over time", series, row)
    return render(
        "round_result.html",
        view.href,
        part=part,
        view=view,
        row=row,
        unit=words.unit_for((run.seconds for run in row.runs), SECONDS),
        runs=[(run, run in counted and row.raw_seconds is not None) for run in row.runs],
        curves=curves,
        legend=time_view.swatches([name for name, _ in series], row.target),
        energies=energies,
        void=() if energy is None else void_words(energy.void, part.ruleset.energy, rules),
        verdicts=[("MLCommons' program", row.code), ("the text of the rules", row.rules)],
        history=[
            (
                other_part,
                other,
                None if other.seconds is None else round_view.minutes_words(other.seconds),
                None if other.interval is None else round_view.interval_words(other.interval),
            )
            for other_part, other in line
        ],
        submitter_href=submitter_path(row.submitter),
        compare=compare_path(part, row.benchmark),
        argument=shlex.quote(f"{row.root}/{row.place}"),
        ruleset_argument=shlex.quote(row.ruleset),
    )


def _json(part: RoundPart) -> bytes:
    return json_bytes(
        {
            "format": FORMAT_VERSION,
            "ruleset": part.ruleset.version,
            "ruleset_digest": part.ruleset.digest,
            "published": part.round.published,
            "state": part.state,
            "results": [_document(row) for row in part.entries],
        }
    )


def _document(row: RoundEntry) -> dict[str, Any]:
    """The result as `tta score --format json` has it, with what the site adds."""
    return {
        **row.document,
        "submitter": row.submitter,
        "system": row.system,
        "accelerator": row.accelerator,
        "accelerators": row.num_accelerators,
        "nodes": row.num_nodes,
        "num_warnings": row.num_warnings,
        "findings": [_note(note) for note in row.findings],
        "suspicions": [_note(note) for note in row.suspicions],
        "root": row.root,
        "page": round_view.href_of(row),
    }


def _note(note: Note) -> dict[str, Any]:
    return {
        "code": note.code,
        "severity": note.severity.value,
        "messages": [{"message": message, "place": place} for message, place in note.messages],
        "count": note.count,
        "waived": note.waived,
        **({} if note.score is None else {"score": note.score}),
    }


def _csv(part: RoundPart) -> bytes:
    return csv_bytes(COLUMNS, [_line(part, row) for row in part.entries])


def _line(part: RoundPart, row: RoundEntry) -> list[object]:
    low, high = row.interval or (None, None)
    energy = row.energy
    return [
        part.name, row.benchmark, row.division, row.category, *(row.ranks or (None, None)), row.submitter, row.system,
        row.accelerator, row.num_accelerators, row.num_nodes, "yes" if row.is_ranked else "no", row.num_errors,
        row.num_warnings, _minutes(row.seconds), _minutes(low), _minutes(high), _minutes(row.raw_seconds), row.factor,
        None if row.code is None else row.code.status, None if row.rules is None else row.rules.status, row.batch_size,
        len(row.runs), sum(run.complies for run in row.runs),
        *((None, None, None) if energy is None else (energy.published_j, energy.rule_j, energy.drawn_j)),
        row.why_not, row.place, round_view.href_of(row),
    ]  # fmt: skip


def _minutes(seconds: float | None) -> float | None:
    return None if seconds is None else minutes(seconds)
