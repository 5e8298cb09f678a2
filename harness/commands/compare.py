"""`tta compare`: two results of one benchmark held against each other."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from datetime import date
from pathlib import Path

from harness.board import leaderboard
from harness.board.compare import Side, compare, comparison_document, comparison_text, side_of, side_of_round
from harness.board.index import NotPlaced, log_header
from harness.board.rounds import Reader
from harness.checker import engine, registry
from harness.checker.results import AUTO, Rulesets
from harness.commands._arguments import Parser, add_format, as_path, utc_today
from harness.errors import ExitStatus, UsageError, printable
from harness.submission.result import find_results, read_result


def add_arguments(parser: Parser) -> None:
    parser.add_argument("a", type=as_path, metavar="A", help="the folder of a result")
    parser.add_argument(
        "b", type=as_path, metavar="B", help="the folder of another result of the same benchmark and division"
    )
    parser.add_argument(
        "--ruleset",
        default=AUTO,
        metavar="NAME",
        help="the ruleset to judge by, or auto: the one that the logs of both name, or the MLPerf round that they are "
        "of (default: %(default)s)",
    )
    add_format(parser)


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(arguments.a, arguments.b, arguments.ruleset, arguments.format, utc_today())


def run(a: Path, b: Path, ruleset_name: str, output_format: str, today: date) -> ExitStatus:
    """Print the comparison of the results in the folders `a` and `b`, as text or as one JSON document.

    Raises:
        UsageError: the ruleset is unknown, a folder has several results, or the two cannot be compared.
        InputError: a folder does not exist, has no result, or has one that cannot be read.
    """
    rulesets = Rulesets.named(ruleset_name, [a, b])
    places = [_only_result(path) for path in (a, b)]
    if places[0].samefile(places[1]):
        raise UsageError(f"{printable(a)} and {printable(b)} are the same result; name two")
    found = compare(*(_side(place, rulesets, today) for place in places))
    if output_format == "json":
        print(json.dumps(comparison_document(found), allow_nan=False, indent=2))
    else:
        print(comparison_text(found))
    return ExitStatus.OK


def _only_result(path: Path) -> Path:
    found = find_results(path)
    if len(found) > 1:
        raise UsageError(f"{printable(path)}: has {len(found)} results; name the folder of one")
    return found[0]


def _side(place: Path, rulesets: Rulesets, today: date) -> Side:
    result = read_result(place)
    ruleset, why = rulesets.of(result)
    checks = registry.checks().values()
    if ruleset.round is not None:
        findings = engine.judge(result, ruleset, checks, today)
        entry = Reader(place, today, is_audited=False)(result, findings, ruleset, why).item
        if isinstance(entry, NotPlaced):
            raise UsageError(f"{printable(place)} cannot be compared: {printable('; '.join(entry.reasons), 400)}")
        return replace(side_of_round(entry), place=str(place))
    row = leaderboard.row(result, ruleset, checks, ruleset.prices, today)
    if row.score.benchmark not in ruleset.benchmarks:
        raise UsageError(f"{printable(place)} cannot be compared: {printable(row.score.why_not, 400)}")
    return side_of(row, next((log_header(log) for log in result.runs), None), ruleset)
