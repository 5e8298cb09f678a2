"""`tta board`: the leaderboard of a tree, as a static site or over HTTP."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from harness.board import leaderboard
from harness.board.index import Board, read_board
from harness.board.leaderboard import Leaderboard, Row
from harness.board.site import refuse_foreign, write_site
from harness.checker import registry
from harness.commands._arguments import Parser, add_ruleset, as_path, utc_today
from harness.errors import ExitStatus, MissingDependencyError, UsageError
from harness.ruleset import catalog, load
from harness.submission.result import Result


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "action", choices=("build", "serve"), help="build: write a static site; serve: serve it over HTTP"
    )
    parser.add_argument("tree", type=as_path, metavar="TREE", help="a tree of submissions")
    parser.add_argument("--out", type=as_path, metavar="SITE", help="build: the folder of the site")
    parser.add_argument("--host", default="127.0.0.1", help="serve: the address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8765, help="serve: the port (default: %(default)s)")
    add_ruleset(parser)


def call(arguments: argparse.Namespace) -> ExitStatus:
    if arguments.action == "serve":
        return serve(arguments.tree, arguments.host, arguments.port, arguments.ruleset)
    if arguments.out is None:
        raise UsageError("tta board build: name the folder for the pages with --out SITE")
    return build(arguments.tree, arguments.out, arguments.ruleset, utc_today())


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
