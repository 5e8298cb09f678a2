"""`tta score`: results ranked by score, with measured time, intervals, energy and cost, and a ranking by energy."""

from __future__ import annotations

import argparse
import json
from datetime import date
from pathlib import Path

from harness.board import leaderboard, mlperf_table
from harness.board.export import leaderboard_document
from harness.board.text import leaderboard_text
from harness.checker import engine, registry
from harness.checker.results import open_results
from harness.commands._arguments import Parser, add_format, add_results, utc_today
from harness.errors import ExitStatus, UsageError


def add_arguments(parser: Parser) -> None:
    add_results(parser, "a results folder, a submission, or a tree of them", has_auto=True)
    add_format(parser, note="; json: one document, or a list of them called rulesets for several rulesets or none")
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
    """Print the results at or below `paths` as ranked tables, or as one JSON document; each ruleset has its own.

    With several rulesets, or where no result can be read, the JSON document is a list of them, `rulesets`.
    is_by_measured: list the rows by measured time and not by score.

    Returns:
        FINDINGS if a result is not valid or has no score.

    Raises:
        UsageError: no path, an unknown ruleset, or an MLPerf round's results with `is_by_measured`.
        InputError: the rules cannot be read; a path does not exist, has no result, or has one that cannot be read (the
            others are shown first).
    """
    if not paths:
        raise UsageError("score: name the logs, folders or trees to score")
    results = open_results(paths, ruleset_name)
    checks = list(registry.checks().values())
    rows: dict[str, list[leaderboard.Row]] = {}
    round_rows: dict[str, list[mlperf_table.RoundRow]] = {}
    for result in results:
        ruleset, _ = results.rulesets.of(result)
        if ruleset.round is None:
            row = leaderboard.row(result, ruleset, checks, ruleset.prices, today)
            rows.setdefault(ruleset.version, []).append(row)
        elif is_by_measured:
            raise UsageError("score: an MLPerf round has only MLPerf's score; leave out --sort measured")
        else:
            findings = engine.judge(result, ruleset, checks, today)
            of_round = mlperf_table.row_of(result, ruleset, ruleset.round, findings)
            round_rows.setdefault(ruleset.version, []).append(of_round)
    rulesets = results.rulesets.used
    boards = [leaderboard.leaderboard(name, rulesets[name].digest, found) for name, found in rows.items()]
    boards = [leaderboard.by_measured_time(board) for board in boards] if is_by_measured else boards
    if output_format == "json":
        documents = [leaderboard_document(board) for board in boards]
        documents += [mlperf_table.document(name, rulesets[name].digest, found) for name, found in round_rows.items()]
        document = documents[0] if len(documents) == 1 else {"rulesets": documents}
        print(json.dumps(document, allow_nan=False, indent=2))
    elif rows or round_rows:
        texts = [leaderboard_text(board) for board in boards]
        texts += [mlperf_table.table(name, rulesets[name].digest, found) for name, found in round_rows.items()]
        print("\n\n".join(texts))
    results.raise_unreadable()
    is_each_ranked = [row.is_ranked for found in rows.values() for row in found]
    is_each_ranked += [row.is_ranked for found in round_rows.values() for row in found]
    return ExitStatus.OK if all(is_each_ranked) else ExitStatus.FINDINGS
