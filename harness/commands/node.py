"""`tta node`: the helper of this node, for a run that is refereed on another node."""

from __future__ import annotations

import argparse
import os
import sys

from harness.base.processes import end_marked
from harness.commands._arguments import Parser, as_index, as_seconds
from harness.errors import ExitStatus, UsageError, printable
from harness.launch import helper
from harness.launch.protocol import NODES
from harness.run.starter import MARK

_MAX_TOKEN = 1000  # characters


def add_arguments(parser: Parser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--connect", metavar="HOST:PORT", help="where the referee listens, as `tta run` shows it")
    what.add_argument("--sweep", metavar="MARK", help="end what a lost helper has left of the run with this mark")
    parser.add_argument("--node", type=as_index, metavar="I", help="the number of this node; the referee's own is 0")
    parser.add_argument(
        "--counted-by",
        metavar="VARIABLE",
        help="a variable of this node's environment, such as SLURM_NODEID; its value is added to --node",
    )
    parser.add_argument(
        "--interface", metavar="NAME", help="the interface to the other nodes (default: that of the connection)"
    )
    parser.add_argument(
        "--patience",
        type=as_seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long to wait for the referee (default: %(default)g)",
    )


def call(arguments: argparse.Namespace) -> ExitStatus:
    if arguments.sweep is not None:
        return sweep(arguments.sweep)
    if arguments.node is None:
        raise UsageError("--connect: also needs --node, the number of this node")
    return run(
        arguments.connect, arguments.node + _counted(arguments.counted_by), arguments.interface, arguments.patience
    )


def _counted(variable: str | None) -> int:
    """Return the value of the variable that numbers the nodes."""
    if variable is None:
        return 0
    value = os.environ.get(variable, "")
    if not value.isascii() or not value.isdigit():
        raise UsageError(
            f"--counted-by {printable(variable)}: is {printable(value)!r} in the environment; it must be a whole "
            "number, which the scheduler sets on each node"
        )
    return int(value)


def run(address: str, node: int, interface: str | None, patience_s: float) -> ExitStatus:
    """Wait for the referee at `address` and serve it until its runs end.

    Raises:
        UsageError: there is no token, neither in the environment nor on standard input, or no such address.
        TtaError: no referee answers, it is not this run's, or it refuses this helper.
    """
    if NODES.variable not in os.environ:
        if sys.stdin.isatty():
            print("token: ", end="", file=sys.stderr, flush=True)
        os.environ[NODES.variable] = sys.stdin.readline(_MAX_TOKEN).strip()
    token = NODES.token()
    del os.environ[NODES.variable]  # nothing that is started here may know it
    helper.main(address, node, token, interface, patience_s)
    return ExitStatus.OK


def sweep(mark: str) -> ExitStatus:
    """End every process whose environment has the mark of a run."""
    if len(mark) < len("0123456789abcdef") or not mark.isalnum():
        raise UsageError(f"--sweep {printable(mark)!r}: is not the mark of a run")
    names = end_marked(f"{MARK}={mark}")
    print(f"ended: {printable(', '.join(names), 1000) or 'nothing was left'}", file=sys.stderr)
    return ExitStatus.OK
