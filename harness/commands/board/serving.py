"""`tta board serve`, `init`, `migrate`, `web` and `worker`: the processes of the leaderboard."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from harness.commands._arguments import Parser, add_ruleset, as_listening_port, as_path
from harness.commands.board import tree
from harness.errors import ExitStatus, MissingDependencyError, UsageError

if TYPE_CHECKING:
    from harness.service.instance import Instance


def add_data(parser: Parser) -> None:
    """Add --data, which every action of a service has."""
    parser.add_argument("--data", type=as_path, required=True, metavar="DIR", help="the service's folder")
    parser.add_argument(
        "--database",
        metavar="URL",
        help="postgresql://USER@HOST/NAME (default: $TTA_BOARD_DATABASE, the settings', or board.sqlite in the folder)",
    )


def _add_address(parser: Parser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=as_listening_port, default=8765, help="the port; 0: any that is free (default: %(default)s)"
    )


def add_serve(parser: Parser) -> None:
    """Add the arguments of `tta board serve`."""
    parser.add_argument("trees", nargs="*", type=as_path, metavar="TREE", help="a tree of submissions to serve")
    parser.add_argument("--data", type=as_path, metavar="DIR", help="the folder of a service, which `init` makes")
    _add_address(parser)
    add_ruleset(parser, has_auto=True)


def call_serve(arguments: argparse.Namespace) -> ExitStatus:
    if (arguments.data is None) == (not arguments.trees):
        raise UsageError("tta board serve: name either a TREE or, for a service, --data DIR")
    if arguments.data is None:
        return tree.call_serve(arguments.trees, arguments.ruleset, arguments.host, arguments.port)
    require_libraries()
    from harness.service import serving

    serving.serve(arguments.data, arguments.host, arguments.port, has_worker=True)
    return ExitStatus.OK


def add_web(parser: Parser) -> None:
    """Add the arguments of `tta board web`."""
    add_data(parser)
    _add_address(parser)


def call_web(arguments: argparse.Namespace) -> ExitStatus:
    require_libraries()
    from harness.service import serving

    serving.serve(arguments.data, arguments.host, arguments.port, has_worker=False, database=arguments.database)
    return ExitStatus.OK


def add_worker(parser: Parser) -> None:
    """Add the arguments of `tta board worker`."""
    add_data(parser)


def call_worker(arguments: argparse.Namespace) -> ExitStatus:
    # Only one thread: checks are made in forked children.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    with opened(arguments) as instance:
        from harness.service.worker import Worker

        Worker(instance).run()
    return ExitStatus.OK


def add_deliver(parser: Parser) -> None:
    """Add the arguments of `tta board deliver`."""
    add_data(parser)


def call_deliver(arguments: argparse.Namespace) -> ExitStatus:
    with opened(arguments) as instance:
        from harness.service.delivering import Deliverer

        Deliverer(instance).run()
    return ExitStatus.OK


def add_migrate(parser: Parser) -> None:
    """Add the arguments of `tta board migrate`."""
    add_data(parser)


def call_migrate(arguments: argparse.Namespace) -> ExitStatus:
    require_libraries()
    from harness.service.instance import Instance
    from harness.service.migrating import migrate

    instance = Instance(arguments.data, database=arguments.database)
    try:
        before, after = migrate(instance.database)
    finally:
        instance.close()
    print(f"the database is of version {after}" + ("" if before == after else f"; before: {before or 'none'}"))
    return ExitStatus.OK


def add_init(parser: Parser) -> None:
    """Add the arguments of `tta board init`."""
    parser.add_argument("folder", type=as_path, metavar="DIR", help="a new folder, or an empty one")
    parser.add_argument("--organisation", required=True, metavar="NAME", help="the first organisation: the organiser's")
    parser.add_argument("--organiser", required=True, metavar="NAME", help="the first person, who may do everything")
    parser.add_argument(
        "--url", default="http://127.0.0.1:8765/", help="where people will reach the service (default: %(default)s)"
    )
    parser.add_argument("--origin", metavar="NAME", help="the name of its log (default: from the URL)")
    parser.add_argument("--database", metavar="URL", help="postgresql://USER@HOST/NAME (default: SQLite in the folder)")
    parser.add_argument("--round", default="rolling", metavar="NAME", help="the first round (default: %(default)s)")
    parser.add_argument(
        "--no-review", action="store_true", help="publish what passes the check: for a team that needs no review"
    )
    add_ruleset(parser, "the ruleset of the first round")


def call_init(arguments: argparse.Namespace) -> ExitStatus:
    require_libraries()
    from harness.service import beginning

    url = arguments.url if arguments.url.endswith("/") else f"{arguments.url}/"
    token = beginning.begin(
        arguments.folder,
        beginning.First(
            origin=arguments.origin or f"{urlsplit(url).netloc.replace(':', '-')}/tta-log",
            url=url,
            organisation=arguments.organisation,
            organiser=arguments.organiser,
            round=arguments.round,
            ruleset=arguments.ruleset,
            is_reviewed=not arguments.no_review,
        ),
        arguments.database,
    )
    print(token)
    print(
        f"tta: made {arguments.folder}; the line above is {arguments.organiser}'s token, which is kept nowhere else. "
        f"Next: tta board serve --data {arguments.folder}",
        file=sys.stderr,
    )
    return ExitStatus.OK


def require_libraries() -> None:
    """Raises:
    MissingDependencyError: a library of the service is not installed.
    """
    for name in ("alembic", "cryptography", "fastapi", "python_multipart", "sqlalchemy", "uvicorn"):
        if importlib.util.find_spec(name) is None:
            raise MissingDependencyError(
                f"the leaderboard's service needs {name!r}, which is not installed: pip install 'tta-harness[board]'"
            )


@contextmanager
def opened(arguments: argparse.Namespace) -> Iterator[Instance]:
    """Open the service that --data names, whose database must be of this version."""
    require_libraries()
    from harness.service.instance import Instance
    from harness.service.migrating import require_newest

    instance = Instance(arguments.data, database=arguments.database)
    try:
        require_newest(instance.database)
        yield instance
    finally:
        instance.close()
