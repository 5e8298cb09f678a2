"""`tta board backup`, `restore`, `verify`, `reindex`, `import` and `export`: keeping a service, and moving into it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from harness.base.files import small_file
from harness.commands._arguments import Parser, as_folder, as_path, utc_today
from harness.commands.board.serving import add_data, opened, require_libraries
from harness.commands.board.tree import build
from harness.errors import ExitStatus, printable
from harness.transparency.checkpoint import parse_note


def add_backup(parser: Parser) -> None:
    """Add the arguments of `tta board backup`."""
    parser.add_argument("folder", type=as_path, metavar="FOLDER", help="a new folder; it will have the key, too")
    add_data(parser)


def call_backup(arguments: argparse.Namespace) -> ExitStatus:
    with opened(arguments) as instance:
        from harness.service import keeping

        count = keeping.back_up(instance, arguments.folder)
    print(f"{arguments.folder}: the database, {count:,} files, settings, key and checkpoint")
    return ExitStatus.OK


def add_restore(parser: Parser) -> None:
    """Add the arguments of `tta board restore`."""
    parser.add_argument("backup", type=as_folder, metavar="FOLDER", help="that `backup` wrote")
    parser.add_argument(
        "--checkpoint",
        type=as_path,
        metavar="FILE",
        help="the newest checkpoint that anybody has: an older backup must not go on under the same name",
    )
    add_data(parser)


def call_restore(arguments: argparse.Namespace) -> ExitStatus:
    require_libraries()
    from harness.service import keeping

    faults = keeping.restore(arguments.backup, arguments.data, arguments.database, arguments.checkpoint)
    print("scores and ranks are as they were backed up; `tta board reindex --verify` judges again", file=sys.stderr)
    return _shown(faults)


def add_verify(parser: Parser) -> None:
    """Add the arguments of `tta board verify`."""
    parser.add_argument("--quick", action="store_true", help="read no files, and judge no result again")
    parser.add_argument(
        "--checkpoint", type=as_path, action="append", default=[], metavar="FILE",
        help="a checkpoint that somebody has kept elsewhere, which the log must continue; more than once",
    )  # fmt: skip
    add_data(parser)


def call_verify(arguments: argparse.Namespace) -> ExitStatus:
    with opened(arguments) as instance:
        from harness.service import verifying

        kept = [(str(path), parse_note(small_file(path), str(path))) for path in arguments.checkpoint]
        return _shown(verifying.faults(instance, with_files=not arguments.quick, kept=kept))


def add_reindex(parser: Parser) -> None:
    """Add the arguments of `tta board reindex`."""
    parser.add_argument("--verify", action="store_true", help="say what would change, and change nothing")
    add_data(parser)


def call_reindex(arguments: argparse.Namespace) -> ExitStatus:
    with opened(arguments) as instance:
        from harness.service import reindexing

        status = _shown(reindexing.differences(instance, is_mended=not arguments.verify))
    return status if arguments.verify else ExitStatus.OK


def add_import(parser: Parser) -> None:
    """Add the arguments of `tta board import`."""
    parser.add_argument("tree", type=as_folder, metavar="TREE", help="a shared folder or git checkout of submissions")
    parser.add_argument("--round", metavar="NAME", help="the round (default: the only one that is open)")
    add_data(parser)


def call_import(arguments: argparse.Namespace) -> ExitStatus:
    with opened(arguments) as instance:
        from harness.service import importing

        received, refused = importing.import_tree(instance, arguments.tree, arguments.round, print)
    print(f"{received:,} received, {refused:,} refused", file=sys.stderr)
    return ExitStatus.FINDINGS if refused else ExitStatus.OK


def add_export(parser: Parser) -> None:
    """Add the arguments of `tta board export`."""
    parser.add_argument(
        "folder", type=as_path, metavar="FOLDER", help="for tree/, log/ and site/; of this command alone"
    )
    parser.add_argument(
        "--ruleset", default="v1", metavar="NAME", help="the ruleset of the site (default: %(default)s)"
    )
    add_data(parser)


def call_export(arguments: argparse.Namespace) -> ExitStatus:
    with opened(arguments) as instance:
        from harness.service import outward

        with outward.alone(arguments.folder):
            count = outward.export(instance, arguments.folder)
            if count:
                return build(
                    arguments.folder / outward.TREE, arguments.folder / outward.SITE, arguments.ruleset, utc_today()
                )
    print("nothing is published yet", file=sys.stderr)
    return ExitStatus.OK


def _shown(faults: Iterable[str]) -> ExitStatus:
    count = 0
    for count, fault in enumerate(faults, 1):  # noqa: B007
        print(printable(fault, 1000))
    print("nothing is wrong" if not count else f"{count:,} things are wrong", file=sys.stderr)
    return ExitStatus.FINDINGS if count else ExitStatus.OK
