"""`tta derive`: every number shown for a result, recomputed from its raw logs, with formula, file and line."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from harness.base.files import small_file
from harness.board import leaderboard
from harness.board.derive.formulas import kind_of
from harness.board.derive.mlperf import derive_round, stated_in_round
from harness.board.derive.numbers import Derived, Place, Subject, derive
from harness.board.derive.stated import RULES_OF_BOARD, Stated, against_board, stated_scaling, stated_totals
from harness.board.export import board_json, row_document
from harness.board.index import read_board
from harness.board.leaderboard import Leaderboard, Row
from harness.board.mlperf_table import RoundRow, ranked, row_of
from harness.checker import engine, registry
from harness.checker.report.text import ruleset_record, rulesets_line
from harness.checker.results import AUTO, Results, open_results
from harness.commands._arguments import Parser, add_format, add_results, as_path, utc_today
from harness.cost.price_book import PriceBook
from harness.errors import ExitStatus, InputError, SubmissionError, UsageError, printable
from harness.findings import Finding
from harness.mlperf.load import RULESET_FILE
from harness.mlperf.model import Round
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet
from harness.scoring import cost
from harness.scoring.summary import summarise
from harness.submission import claim, layout
from harness.submission.result import Result, find_results, read_result

MAX_BOARD_BYTES = 256 << 20
_TABLE_NUMBERS = ("target", "num_runs", "drop", "without_training")
_MAX_SHOWN = 4  # values of a series, and lines of a file, in the text; the JSON output has all


@dataclass(frozen=True, slots=True)
class Derivation:
    """The numbers of one result by `ruleset`. typed: those stated in its files, to compare with."""

    result: Result
    ruleset: RuleSet
    numbers: tuple[Derived, ...]
    typed: tuple[Stated, ...]

    @property
    def is_consistent(self) -> bool:
        """Whether each number has its formula, and nothing stated differs from what the logs give."""
        return all(item.formula for item in self.numbers) and all(item.agrees is not False for item in self.typed)


def add_arguments(parser: Parser) -> None:
    add_results(parser, "a log, a results folder, a submission, or a tree of them", default_ruleset=AUTO, has_auto=True)
    add_format(parser)
    parser.add_argument("--tree", type=as_path, metavar="TREE", help="the results among which these are ranked")
    parser.add_argument(
        "--against", type=as_path, metavar="BOARD.json", help="the data of a published board, to compare with"
    )


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(arguments.paths, arguments.ruleset, arguments.format, arguments.tree, arguments.against, utc_today())


def run(
    paths: list[Path], ruleset_name: str, output_format: str, tree: Path | None, against: Path | None, today: date
) -> ExitStatus:
    """Print the derivation of every result at or below `paths`.

    tree: the results among which they are ranked; without it, they are ranked among themselves. against: the data of a
    published board, to compare with.

    Returns:
        FINDINGS if a stated or published number differs from what the logs give.

    Raises:
        UsageError: no path, an unknown ruleset, or an MLPerf round's results with `tree` or `against`.
        InputError: the rules or the board cannot be read; a path does not exist, has no result, or has one that cannot
            be read or has an unreadable scaling.json (everything else is derived first).
    """
    if not paths:
        raise UsageError("derive: name the logs, folders or trees to derive numbers from")
    opened = open_results(paths, ruleset_name, left_out="nothing is derived from it")
    by_ruleset: dict[str, dict[Path, Result]] = {}
    for result in opened:
        ruleset, _ = opened.rulesets.of(result)
        if ruleset.round is not None and (tree is not None or against is not None):
            raise UsageError("derive: an MLPerf round has no leaderboard here; leave out --tree and --against")
        by_ruleset.setdefault(ruleset.version, {})[result.path] = result
    found = []
    for name, results in by_ruleset.items():
        ruleset, folder = opened.rulesets.load(name), catalog.ruleset_folder(name)
        if ruleset.round is None:
            found += _of_board(results, ruleset, folder, tree, against, today, opened)
        else:
            found += _of_round(results.values(), ruleset, ruleset.round, folder, today, opened)
    status = _print(found, output_format) if found else ExitStatus.OK
    opened.raise_unreadable()
    return status


def _of_board(
    mine: Mapping[Path, Result],
    ruleset: RuleSet,
    folder: Path,
    tree: Path | None,
    against: Path | None,
    today: date,
    opened: Results,
) -> list[Derivation]:
    checks = registry.checks()
    known = {path.resolve() for path in mine}
    others = [] if tree is None else [path for path in find_results(tree) if path.resolve() not in known]
    results = {str(path): result for path, result in mine.items()}
    for path in others:
        try:
            results[str(path)] = read_result(path)
        except InputError as error:
            opened.skip(path, error)
    rows = [leaderboard.row(result, ruleset, checks.values(), ruleset.prices, today) for result in results.values()]
    placed = {row.path: row for table in leaderboard.leaderboard("", "", rows).tables for row in table.rows}
    published = None if against is None else _read(against)
    found = []
    for path in mine:
        subject = _subject(results[str(path)], placed[str(path)], ruleset, folder)
        documents = _documents(subject, ruleset)
        if (tree is not None or published is not None) and path.is_dir():
            documents["board"] = _board_row(tree or path, path, ruleset, today)
        numbers = derive(subject, documents)
        typed = stated_totals(subject, numbers)
        try:
            typed += stated_scaling(subject)
        except SubmissionError as error:
            opened.skip(path, error)
        if published is not None and against is not None:
            typed += against_board(published, against, subject, documents.get("board", {}), tree is not None)
        found.append(Derivation(subject.result, ruleset, tuple(numbers), tuple(typed)))
    return found


def _print(found: Sequence[Derivation], output_format: str) -> ExitStatus:
    print(_json(found) if output_format == "json" else _text(found))
    return ExitStatus.OK if all(item.is_consistent for item in found) else ExitStatus.FINDINGS


def _of_round(
    results: Iterable[Result], ruleset: RuleSet, round_: Round, folder: Path, today: date, opened: Results
) -> list[Derivation]:
    """The results are ranked among themselves."""
    found: list[tuple[Result, list[Finding], RoundRow]] = []
    for result in results:
        findings = engine.judge(result, ruleset, registry.checks().values(), today)
        row = row_of(result, ruleset, round_, findings)
        scaling = result.path / layout.SCALING_NAME
        if row.claimed is None and layout.SCALING_NAME in result.files:
            opened.skip(result.path, SubmissionError(f"{scaling}: {claim.claimed_factor(scaling)[1]}"))
        found.append((result, findings, row))
    rows = {row.path: row for row in ranked(row for _, _, row in found)}
    derivations = []
    for result, findings, _ in found:
        row = rows[result.path]
        rules = folder / f"{row.score.benchmark}.yaml"
        numbers = derive_round(row, findings, str(rules if rules.exists() else folder / RULESET_FILE))
        derivations.append(Derivation(result, ruleset, tuple(numbers), tuple(stated_in_round(result, row))))
    return derivations


def _read(path: Path) -> bytes:
    """The data of a published board. Links are followed; a pipe or a device is not waited for."""
    return small_file(Path(os.path.realpath(path)), MAX_BOARD_BYTES)


def _subject(result: Result, row: Row, ruleset: RuleSet, folder: Path) -> Subject:
    rules = ruleset.benchmarks.get(result.benchmark or "")
    book = None if ruleset.prices is None else cost.book_of(result, ruleset.prices)
    files = [folder / load.PRICES_FILE, *sorted((folder / load.PRICES_FOLDER).glob("*.yaml"))]
    prices = [
        str(file)
        for file in files
        if isinstance(book, PriceBook) and file.exists() and load.load_prices(file).digest == book.digest
    ]
    rules_path = str(folder / (RULESET_FILE if rules is None else f"{rules.workload}.yaml"))
    return Subject(result, row, rules, rules_path, prices[0] if prices else None)


def _documents(subject: Subject, ruleset: RuleSet) -> dict[str, Any]:
    """What is shown for the result, by the prefix of its numbers' names."""
    documents: dict[str, Any] = {"": row_document(subject.row)}
    if subject.rules is not None:
        row = summarise(subject.result, subject.rules, ruleset.timing, ruleset.energy)
        documents["summary"] = dataclasses.asdict(row)
    return documents


def _board_row(tree: Path, path: Path, ruleset: RuleSet, today: date) -> dict[str, Any]:
    """The row of the result in the data of a board of `tree`, with the data of its table; empty if it has no row."""
    checks = registry.checks()

    def rate(result: Result) -> Row:
        return leaderboard.row(result, ruleset, checks.values(), ruleset.prices, today)

    def rank(rows: Sequence[Row]) -> Leaderboard:
        return leaderboard.leaderboard(ruleset.version, ruleset.digest, rows)

    board = json.loads(board_json(read_board(tree, ruleset, checks, ruleset.prices, rate, rank)))
    for table in board["tables"]:
        for row in table["rows"]:
            if (tree / row["place"]).resolve() == path.resolve():
                rules = {name: board[name] for name in RULES_OF_BOARD}
                return {**rules, **{name: table[name] for name in _TABLE_NUMBERS}, **row}
    return {}


def _rulesets(found: Sequence[Derivation]) -> list[RuleSet]:
    return list({item.ruleset.version: item.ruleset for item in found}.values())


def _json(found: Sequence[Derivation]) -> str:
    document = {
        "rulesets": [ruleset_record(ruleset) for ruleset in _rulesets(found)],
        "results": [
            {
                "path": str(item.result.path),
                "benchmark": item.result.benchmark,
                "ruleset": item.ruleset.version,
                "agrees": item.is_consistent,
                "numbers": [_number(number) for number in item.numbers],
                "typed": [{**dataclasses.asdict(typed), "agrees": typed.agrees} for typed in item.typed],
            }
            for item in found
        ],
    }
    return json.dumps(document, allow_nan=False, indent=1)


def _number(number: Derived) -> dict[str, Any]:
    formula = number.formula
    return {
        "name": number.name,
        "value": number.value,
        "unit": None if formula is None else formula.unit,
        "formula": None if formula is None else formula.words,
        "places": [dataclasses.asdict(place) for place in number.places],
    }


def _text(found: Sequence[Derivation]) -> str:
    blocks, rulesets = [], _rulesets(found)
    for item in found:
        name = printable(item.result.path, 1000)
        by = f", ruleset {printable(item.ruleset.version)}" if len(rulesets) > 1 else ""
        lines = [f"{name} ({printable(item.result.benchmark)}{by})"]
        for group in _series(item.numbers).values():
            lines += _group(group, f"{item.result.path}/")
        differing = [typed for typed in item.typed if typed.agrees is False]
        open_ = [typed for typed in item.typed if typed.agrees is None]
        lines += [_difference(typed) for typed in differing]
        lines += [f"  not compared: {_stated(typed)} ({printable(typed.why)})" for typed in open_]
        num_agreeing = len(item.typed) - len(differing) - len(open_)
        lines.append(
            f"  {len(item.numbers)} numbers derived; of {len(item.typed)} stated totals {num_agreeing} agree, "
            f"{len(differing)} differ, {len(open_)} have nothing to compare with"
        )
        blocks.append("\n".join(lines))
    verdict = "agree" if all(item.is_consistent for item in found) else "differ"
    return "\n\n".join([*blocks, f"{rulesets_line(rulesets)}: the numbers {verdict}"])


def _series(numbers: Sequence[Derived]) -> dict[tuple[str, str], list[Derived]]:
    """By run and kind: the numbers of a curve are one series."""
    groups: dict[tuple[str, str], list[Derived]] = {}
    for number in numbers:
        run = number.name.split("]", 1)[0] if "runs[" in number.name else ""
        groups.setdefault((run, kind_of(number.name)), []).append(number)
    return groups


def _group(group: Sequence[Derived], folder: str) -> Iterator[str]:
    first = group[0]
    run, kind = first.name.partition("]")[0], kind_of(first.name)
    name = first.name if len(group) == 1 else run + kind[kind.find("]") :] if "runs[" in kind else kind
    values = [_value(item.value) for item in group]
    shown = ", ".join(values if len(values) <= _MAX_SHOWN else [*values[: _MAX_SHOWN - 1], f"… {values[-1]}"])
    unit = "" if first.formula is None or not first.formula.unit else f" {first.formula.unit}"
    count = "" if len(group) == 1 else f" ({len(group)} values)"
    yield f"  {printable(name)} = {shown}{unit}{count}"
    yield f"      {first.formula.words if first.formula else 'no formula is known: this is a bug in tta'}"
    merged: dict[tuple[str, str], dict[int, None]] = {}
    for place in (place for item in group for place in item.places):
        merged.setdefault((place.path, place.what), {}).update(dict.fromkeys(place.lines))
    for (path, what), lines in list(merged.items())[:_MAX_SHOWN]:
        yield f"      {_place(Place(path.removeprefix(folder), tuple(lines), what))}"
    if len(merged) > _MAX_SHOWN:
        num_more = len(merged) - _MAX_SHOWN
        yield f"      and {num_more} more place{'' if num_more == 1 else 's'}"


def _place(place: Place) -> str:
    lines = [str(line) for line in place.lines]
    if len(lines) > _MAX_SHOWN:
        lines = [*lines[: _MAX_SHOWN - 1], f"… {lines[-1]}"]
    at = f"{printable(place.path, 1000)}{':' if lines else ''}{','.join(lines)}"
    return f"{at}  {printable(place.what)}"


def _value(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else printable(value)


def _stated(typed: Stated) -> str:
    at = printable(typed.path, 1000) if typed.line is None else f"{printable(typed.path, 1000)}:{typed.line}"
    return f"{at}: {printable(typed.name)} is stated as {_value(typed.stated)}"


def _difference(typed: Stated) -> str:
    return f"  DIFFERS: {_stated(typed)}; the logs give {_value(typed.derived)}"
