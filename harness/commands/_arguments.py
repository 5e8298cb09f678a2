"""What every verb's arguments are made of: the parser that answers with one sentence, and kinds of values."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from harness.errors import ExitStatus, UsageError, printable

EXITS = (
    "exit status: 0 success; 1 findings or target not reached; 2 usage error or unreadable input; 3 internal error; "
    "130 interrupted"
)


class Parser(argparse.ArgumentParser):
    """argparse that answers a wrong argument with one sentence."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{printable(message, 500)} (see `{self.prog} --help`)")


if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction[Parser]


def add_verb(verbs: Verbs, name: str, summary: str, call: Callable[[argparse.Namespace], ExitStatus]) -> Parser:
    parser: Parser = verbs.add_parser(name, help=summary, description=summary, epilog=EXITS, allow_abbrev=False)
    parser.set_defaults(call=call, parser=parser)
    return parser


def path(text: str) -> Path:
    """The path as it is typed; up to its last `..` resolved, because what a result is is told from the names above it.

    An empty one would be the current folder, and what a script forgot to name would be judged, or written to.
    """
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; the current folder is called .")
    names = Path(text).parts
    end = len(names) - names[::-1].index("..") if ".." in names else 0
    return Path(Path(*names[:end]).resolve(), *names[end:]) if end else Path(text)


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not a whole number from 1 up")
    return int(text)


def seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not a whole number from 0 to 2147483647")
    return int(text)
