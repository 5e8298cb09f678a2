"""What every verb's arguments are made of: the parser that answers with one sentence, and kinds of values."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from harness.errors import ExitStatus, UsageError, printable

EXITS = (
    "exit status: 0 well; 1 findings, or target not reached; 2 usage or unreadable input; 3 a bug of ours; "
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


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not a whole number from 1 up")
    return int(text)


def seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not a whole number from 0 to 2147483647")
    return int(text)
