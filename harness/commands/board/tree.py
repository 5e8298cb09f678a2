"""`tta board build` and `serve TREE`: the leaderboard of a tree, or of MLPerf rounds, as a static site or over HTTP."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from harness.board import leaderboard, rounds
from harness.board.index import Board, read_board
from harness.board.leaderboard import Leaderboard, Row
from harness.board.pages.round_render import render_round_pages
from harness.board.site import publish, refuse_foreign, write_site
from harness.checker import registry
from harness.checker.results import AUTO, open_results
from harness.commands._arguments import Parser, add_ruleset, as_path, as_positive, utc_today
from harness.errors import ExitStatus, MissingDependencyError, UsageError
from harness.ruleset import catalog, load
from harness.ruleset.detect import DEFAULT_RULESET
from harness.submission.result import Result


def add_build(parser: Parser) -> None:
    """Add the arguments of `tta board build`."""
    parser.add_argument(
        "trees",
        nargs="+",
        type=as_path,
        metavar="TREE",
        help="a tree of submissions, or one or more folders with results of MLPerf rounds",
    )
    parser.add_argument("--out", type=as_path, metavar="SITE", help="the folder of the site")
    parser.add_argument(
        "--jobs",
        type=as_positive,
        metavar="N",
        help="MLPerf rounds: number of processes (default: one per core if there are many logs)",
    )
    add_ruleset(parser, has_auto=True)


def call_build(arguments: argparse.Namespace) -> ExitStatus:
    trees: list[Path] = arguments.trees
    name = _own_ruleset(trees, arguments.ruleset)
    if arguments.out is None:
        raise UsageError("tta board build: name the folder for the pages with --out SITE")
    if name is None:
        return build_rounds(trees, arguments.out, arguments.ruleset, utc_today(), arguments.jobs)
    return build(_one(trees, arguments.ruleset), arguments.out, name, utc_today())


def call_serve(trees: list[Path], ruleset: str, host: str, port: int) -> ExitStatus:
    """Serve a tree over HTTP."""
    name = _own_ruleset(trees, ruleset)
    if name is None:
        raise UsageError(
            "tta board serve: serves tta's own results only; for MLPerf rounds, build the site with `tta board "
            "build` and serve its folder with any web server"
        )
    return serve(_one(trees, ruleset), host, port, name)


def _own_ruleset(trees: list[Path], name: str) -> str | None:
    """The ruleset of a board of `tta`'s own results; None for a board of MLPerf rounds.

    `auto` stands for the ruleset of the first result that points to one.
    """
    if name == AUTO:
        results = open_results(trees, name)
        choices = (results.rulesets.choose(result) for result in results)
        name = next((choice.name for choice in choices if not choice.is_default), DEFAULT_RULESET)
    ruleset = load.load_ruleset(catalog.ruleset_folder(name), name)
    return None if ruleset.round is not None else name


def _one(trees: list[Path], ruleset_name: str) -> Path:
    if len(trees) > 1:
        hint = "" if ruleset_name == AUTO else f" (for MLPerf rounds, add --ruleset {AUTO})"
        raise UsageError(f"tta board: a board of tta's own results takes one tree, not {len(trees)}{hint}")
    return trees[0]


def build_rounds(trees: list[Path], site: Path, ruleset_name: str, today: date, jobs: int | None) -> ExitStatus:
    """Write the site of MLPerf rounds and print the path of its first page.

    Raises:
        TtaError: a tree or a ruleset cannot be read, or the site cannot be written.
    """
    for tree in trees:
        refuse_foreign(site, tree)  # before the work
    board = rounds.read_rounds(trees, ruleset_name, today, jobs)
    publish(render_round_pages(board), (), site, trees)
    print(site / "index.html")
    return ExitStatus.OK


def build(tree: Path, site: Path, ruleset_name: str, today: date) -> ExitStatus:
    """Write the site and print the path of its first page. Results that do not count are on it, with the reason.

    Raises:
        TtaError: the tree or the ruleset cannot be read, or the site cannot be written.
    """
    refuse_foreign(site, tree)  # before the work
    board = board_of(tree, ruleset_name, today)
    write_site(board, site, tree)
    print(site / "index.html")
    return ExitStatus.OK


def board_of(tree: Path, ruleset_name: str, today: date) -> Board:
    """The tree judged by the ruleset, with the waivers that are valid on the day `today`.

    Raises:
        TtaError: the tree or the ruleset cannot be read.
    """
    folder = catalog.ruleset_folder(ruleset_name)
    ruleset = load.load_ruleset(folder, ruleset_name)
    checks = registry.checks()

    def rate(result: Result) -> Row:
        return leaderboard.row(result, ruleset, checks.values(), ruleset.prices, today)

    def rank(rows: Sequence[Row]) -> Leaderboard:
        return leaderboard.leaderboard(ruleset.version, ruleset.digest, rows)

    return read_board(tree, ruleset, checks, ruleset.prices, rate, rank)


def serve(tree: Path, host: str, port: int, ruleset_name: str) -> ExitStatus:
    """Serve the site until interrupted, and rebuild it when the tree changes.

    Raises:
        MissingDependencyError: starlette or uvicorn is not installed. TtaError: see `build`.
    """
    try:
        from harness.board import service
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"`tta board serve` needs {error.name!r}, which is not installed: pip install 'tta-harness[board]' "
            f"(`tta board build` works without it)"
        ) from None

    def build_into(site: Path) -> None:
        write_site(board_of(tree, ruleset_name, datetime.now(UTC).date()), site, tree)

    service.serve(tree, host, port, build_into)
    return ExitStatus.OK
