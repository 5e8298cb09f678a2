"""`tta board`: the leaderboard of a tree as a static site, or over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from harness.board import leaderboard
from harness.board.index import Board, read_board
from harness.board.site import refuse_foreign, write_site
from harness.errors import ExitStatus, MissingDependencyError
from harness.ruleset import catalog, load
from harness.scoring.score import Leaderboard, Row
from harness.submission.result import Result


def build(tree: Path, site: Path, ruleset_name: str, today: date) -> ExitStatus:
    """Writes the site and prints where its first page is; results that do not count are on it, with the reason.

    Raises:
        TtaError: the tree or the ruleset cannot be read, or the site not be written.
    """
    refuse_foreign(site, tree)  # before the work
    board = board_of(tree, ruleset_name, today)
    write_site(board, site, tree)
    print(site / "index.html")
    return ExitStatus.OK


def board_of(tree: Path, ruleset_name: str, today: date) -> Board:
    """The tree under the ruleset, waivers as they stand on the day `today`.

    Raises:
        TtaError: the tree or the ruleset cannot be read.
    """
    folder = catalog.ruleset_folder(ruleset_name)
    ruleset = load.load_ruleset(folder, ruleset_name)
    checks = catalog.checks()

    def rate(result: Result) -> Row:
        return leaderboard.row(result, ruleset, checks.values(), ruleset.prices, today)

    def rank(rows: Sequence[Row]) -> Leaderboard:
        return leaderboard.leaderboard(ruleset.version, ruleset.digest, rows)

    return read_board(tree, ruleset, checks, ruleset.prices, rate, rank)


def serve(tree: Path, host: str, port: int, ruleset_name: str) -> ExitStatus:
    """Serves the site until interrupted, rebuilding it when the tree changes.

    Raises:
        MissingDependencyError: starlette or uvicorn is not installed. TtaError: see `build`.
    """
    try:
        from harness.board import service
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"`tta board serve` needs {error.name!r}, which is not installed: pip install 'tta-harness[board]' "
            f"(`tta board build` does without)"
        ) from None

    def build_into(site: Path) -> None:
        write_site(board_of(tree, ruleset_name, datetime.now(UTC).date()), site, tree)

    service.serve(tree, host, port, build_into)
    return ExitStatus.OK
