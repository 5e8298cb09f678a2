"""`tta score`: time to accuracy of results, ranked, with interval, energy and cost; and ranked by energy, apart."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path

from harness.board import leaderboard, mlperf_table
from harness.board.export import leaderboard_document
from harness.board.text import leaderboard_text
from harness.checker import engine, parallel, registry
from harness.errors import ExitStatus, InputError, UsageError, printable
from harness.findings import Rule
from harness.mlperf.model import Round
from harness.mlperf.score import round_score
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet
from harness.submission import claim, layout
from harness.submission.result import Result, find_results, read_result


def run(paths: list[Path], ruleset_name: str, output_format: str, today: date | None = None) -> ExitStatus:
    """Prints the results at or below `paths` as ranked tables, or as one JSON document.

    Returns:
        FINDINGS where a result is not valid or has no score; USAGE where one cannot be read (the others are shown).

    Raises:
        TtaError: a path has no result, the rules cannot be read, or the results point to two ("auto").
    """
    if not paths:
        raise UsageError("score: which results? name logs, folders or trees of them")
    unreadable: list[InputError] = []
    results = _readable(dict.fromkeys(found for place in paths for found in find_results(place)), unreadable)
    if ruleset_name == parallel.AUTO:
        auto, results = parallel.held_to_one(results, paths)
        parallel.say(auto)
        ruleset_name = auto.name
    folder = catalog.ruleset_folder(ruleset_name)
    ruleset = load.load_ruleset(folder, ruleset_name)
    checks = list(registry.checks().values())
    today = today or datetime.now(UTC).date()
    if ruleset.round is not None:
        is_ranked = _print_round(results, ruleset, ruleset.round, checks, output_format, today)
    else:
        is_ranked = _print_ours(results, ruleset, checks, output_format, today)
    return ExitStatus.USAGE if unreadable else ExitStatus.OK if is_ranked else ExitStatus.FINDINGS


def _readable(paths: Iterable[Path], unreadable: list[InputError]) -> Iterator[Result]:
    """The results that can be read; of the others it is said why not, and they are put into `unreadable`."""
    for path in paths:
        try:
            yield read_result(path)
        except InputError as error:
            print(f"tta: {printable(error, 2000)}", file=sys.stderr)
            unreadable.append(error)


def _print_ours(
    results: Iterable[Result], ruleset: RuleSet, checks: list[Rule], output_format: str, today: date
) -> bool:
    """The tables; whether all results are ranked."""
    rows = [leaderboard.row(result, ruleset, checks, ruleset.prices, today) for result in results]
    board = leaderboard.leaderboard(ruleset.version, ruleset.digest, rows)
    if output_format == "json":
        print(json.dumps(leaderboard_document(board), allow_nan=False, indent=2))
    elif rows:
        print(leaderboard_text(board))
    return all(row.is_ranked for row in rows)


def _print_round(
    results: Iterable[Result], ruleset: RuleSet, round_: Round, checks: list[Rule], output_format: str, today: date
) -> bool:
    """The same of a round of MLPerf's."""
    rows = []
    for result in results:
        path = result.path
        num_errors = sum(finding.counts for finding in engine.judge(result, ruleset, checks, today))
        has_claim = layout.SCALING_NAME in result.files
        claimed = claim.claimed_factor(path / layout.SCALING_NAME)[0] if has_claim else None
        rows.append(mlperf_table.RoundRow(path, round_score(result.runs, round_), num_errors, claimed))
    if output_format == "json":
        document = mlperf_table.document(ruleset.version, ruleset.digest, rows)
        print(json.dumps(document, allow_nan=False, indent=2))
    else:
        print(mlperf_table.table(ruleset.version, ruleset.digest, rows))
    return all(row.is_ranked for row in rows)
