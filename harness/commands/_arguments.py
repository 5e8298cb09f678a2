"""What the verbs' arguments are made of: a parser that answers with one sentence, kinds of values, shared options."""

from __future__ import annotations

import argparse
import math
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NoReturn

from harness.errors import UsageError, printable, unknown_name

EXIT_STATUSES = (
    "Exit status: 0 success; 1 findings or target not reached; 2 usage error or unreadable input; 3 internal error; "
    "130 interrupted."
)


LAUNCHERS = ("local", "hosts", "slurm", "k8s")


class Parser(argparse.ArgumentParser):
    """An argument parser that answers a wrong argument with one sentence."""

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            what = action.option_strings[0] if action.option_strings else action.metavar or action.dest
            raise UsageError(
                f"{unknown_name(str(what).lower(), str(value), map(str, action.choices))} (see `{self.prog} --help`)"
            )

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{printable(message, 500)} (see `{self.prog} --help`)")


# Options that several verbs share.


def add_results(parser: Parser, what: str, default_ruleset: str = "v1", has_auto: bool = False) -> None:
    """Add PATH … and --ruleset. has_auto: --ruleset may be `auto`."""
    parser.add_argument("paths", nargs="+", type=as_path, metavar="PATH", help=what)
    add_ruleset(parser, default=default_ruleset, has_auto=has_auto)


def add_ruleset(
    parser: Parser, what: str = "the ruleset to judge by", default: str = "v1", has_auto: bool = False
) -> None:
    """Add --ruleset. has_auto: it may be `auto`."""
    auto = ", or auto: each result's own: the one its logs name, or its MLPerf round" if has_auto else ""
    parser.add_argument("--ruleset", default=default, metavar="NAME", help=f"{what}{auto} (default: %(default)s)")


def add_prepared(parser: Parser) -> None:
    """Add --data, for verbs that compute qualities again."""
    parser.add_argument(
        "--data",
        type=as_path,
        metavar="DIR",
        help="the cache of prepared data, with which qualities are computed again (default: $TTA_DATA)",
    )


def add_format(parser: Parser, *others: str, note: str = "") -> None:
    """Add --format: text, JSON and `others`. note: what else its help says."""
    choices = ("text", "json", *others)
    text = f"the output format{note} (default: %(default)s)"
    parser.add_argument("--format", choices=choices, default="text", help=text)


def add_benchmark(parser: Parser, is_optional: bool = False) -> None:
    """Add WORKLOAD, --suite and --ruleset, and where the data are."""
    nargs = "?" if is_optional else None
    parser.add_argument("workload", nargs=nargs, metavar="WORKLOAD", help="for example image_classification")
    add_suite(parser)
    add_ruleset(parser, "the ruleset")
    parser.add_argument("--data", type=as_path, metavar="DIR", help="the cache of prepared data (default: $TTA_DATA)")
    parser.add_argument(
        "--source",
        type=as_path,
        metavar="DIR",
        help="data you already have, in a layout that the workload's card names",
    )


def add_suite(parser: Parser) -> None:
    parser.add_argument("--suite", default="mini", help="mini, standard or full (default: %(default)s)")


def add_nodes(parser: Parser) -> None:
    """Add the options that say which nodes there are and how they are reached."""
    parser.add_argument("--nodes", type=as_positive, default=1, metavar="N", help="number of nodes (default: 1)")
    parser.add_argument(
        "--launcher",
        choices=LAUNCHERS,
        help="how the other nodes are reached: hosts (by ssh, or --by-hand), slurm (as a job), k8s (with --print, as a "
        "manifest), local (all on this machine, to try out)",
    )
    parser.add_argument(
        "--hosts",
        type=as_path,
        metavar="FILE",
        help="the nodes, a line NAME [ADDRESS] each, the first of which is this machine",
    )
    parser.add_argument(
        "--address-of",
        metavar="PATTERN",
        help="the name of a node's address in the network of the nodes, for example {}-ib",
    )
    parser.add_argument(
        "--ssh", metavar="COMMAND", help="in place of `ssh -T`; it is given the host and a command line"
    )
    parser.add_argument(
        "--by-hand", action="store_true", help="show the command for each of the other nodes, and wait for them"
    )
    parser.add_argument(
        "--interface", metavar="NAME", help="of the nodes' network (default: that of the first node's address)"
    )
    parser.add_argument(
        "--port", type=as_port, metavar="N", help="where the other nodes connect to this one (default: a free one)"
    )


# Kinds of values.


def as_path(text: str) -> Path:
    """The path as typed, resolved up to its last `..`, because the names above a result say what it is.

    An empty path would mean the current folder: what a script forgot to name would be judged, or written to.
    """
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; the current folder is called .")
    names = Path(text).parts
    end = len(names) - names[::-1].index("..") if ".." in names else 0
    return Path(Path(*names[:end]).resolve(), *names[end:]) if end else Path(text)


def as_folder(text: str) -> Path:
    """The path of a folder that exists."""
    path = as_path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder")
    return path


def as_positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not a whole number of at least 1")
    return int(text)


def as_port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:6]) <= 65535:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not a port from 1 to 65535")
    return int(text)


def as_listening_port(text: str) -> int:
    """A port to listen on; 0: any that is free."""
    return 0 if text == "0" else as_port(text)


def as_index(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 6:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not a whole number from 0 to 999999")
    return int(text)


def as_seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not a whole number from 0 to 2147483647")
    return int(text)


def as_number(text: str, low: float = -1e9, high: float = 1e9) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not a number from {low:g} to {high:g}")
    return value


def as_seconds(text: str) -> float:
    return as_number(text, 0.0, 86_400.0)


def as_throughput(text: str) -> float:
    """Samples per second."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e15:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not a number above 0")
    return value


def utc_today() -> date:
    """The day in UTC, by which waivers expire."""
    return datetime.now(UTC).date()
