"""`tta score`: results ranked by score, with measured time, intervals, energy and cost, and a ranking by energy."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from harness.board import leaderboard, mlperf_table
from harness.board.export import leaderboard_document
from harness.board.text import leaderboard_text
from harness.checker import engine, registry
from harness.checker.results import open_results
from harness.commands._arguments import Parser, add_format, add_results, utc_today
from harness.errors import ExitStatus, UsageError
from harness.findings import Rule
from harness.mlperf.model import Round
from harness.mlperf.score import round_score
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet
from harness.scoring.round_energy import round_energy
from harness.submission import claim, layout
from harness.submission.result import Result


def add_arguments(parser: Parser) -> None:
    add_results(parser, "a results folder, a submission, or a tree of them", has_auto=True)
    add_format(parser)
    parser.add_argument(
        "--sort",
        choices=("score", "measured"),
        default="score",
        help="list the rows by score or by measured time; the ranks are those of the score (default: score)",
    )


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(arguments.paths, arguments.ruleset, arguments.format, utc_today(), arguments.sort == "measured")


def run(
    paths: list[Path], ruleset_name: str, output_format: str, today: date, is_by_measured: bool = False
) -> ExitStatus:
    """Print the results at or below `paths` as ranked tables, or as one JSON document.

    is_by_measured: list the rows by measured time and not by score.

    Returns:
        FINDINGS if a result is not valid or has no score.

    Raises:
        UsageError: no path, an unknown ruleset, results that point to two rulesets (`auto`), or an MLPerf round's
            results with `is_by_measured`.
        InputError: the rules cannot be read; a path does not exist, has no result, or has one that cannot be read (the
            others are shown first).
    """
    if not paths:
        raise UsageError("score: name the logs, folders or trees to score")
    results = open_results(paths, ruleset_name)
    ruleset = load.load_ruleset(catalog.ruleset_folder(results.ruleset_name), results.ruleset_name)
    checks = list(registry.checks().values())
    if ruleset.round is not None and is_by_measured:
        raise UsageError("score: an MLPerf round has only MLPerf's score; leave out --sort measured")
    if ruleset.round is not None:
        is_ranked = _print_round(results, ruleset, ruleset.round, checks, output_format, today)
    else:
        is_ranked = _print_tables(results, ruleset, checks, output_format, today, is_by_measured)
    results.raise_unreadable()
    return ExitStatus.OK if is_ranked else ExitStatus.FINDINGS


def _print_tables(
    results: Iterable[Result],
    ruleset: RuleSet,
    checks: list[Rule],
    output_format: str,
    today: date,
    is_by_measured: bool,
) -> bool:
    """Print the tables; return whether all results are ranked."""
    rows = [leaderboard.row(result, ruleset, checks, ruleset.prices, today) for result in results]
    board = leaderboard.leaderboard(ruleset.version, ruleset.digest, rows)
    if is_by_measured:
        board = leaderboard.by_measured_time(board)
    if output_format == "json":
        print(json.dumps(leaderboard_document(board), allow_nan=False, indent=2))
    elif rows:
        print(leaderboard_text(board))
    return all(row.is_ranked for row in rows)


def _print_round(
    results: Iterable[Result], ruleset: RuleSet, round_: Round, checks: list[Rule], output_format: str, today: date
) -> bool:
    """The same for a round of MLPerf."""
    rows = []
    for result in results:
        path = result.path
        num_errors = sum(finding.counts for finding in engine.judge(result, ruleset, checks, today))
        has_claim = layout.SCALING_NAME in result.files
        claimed = claim.claimed_factor(path / layout.SCALING_NAME)[0] if has_claim else None
        score = round_score(result.runs, round_)
        energy = round_energy(score, round_, ruleset.energy, result.num_nodes)
        rows.append(mlperf_table.RoundRow(path, score, num_errors, claimed, energy))
    if output_format == "json":
        document = mlperf_table.document(ruleset.version, ruleset.digest, rows)
        print(json.dumps(document, allow_nan=False, indent=2))
    else:
        print(mlperf_table.table(ruleset.version, ruleset.digest, rows))
    return all(row.is_ranked for row in rows)
