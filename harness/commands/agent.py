"""`tta agent`: the power agent of this node, for a run refereed on another node."""

from __future__ import annotations

import argparse
import os

from harness.commands._arguments import Parser, as_positive, as_seconds
from harness.errors import ExitStatus, UsageError
from harness.log.power_format import TOKEN_VARIABLE
from harness.metering import agent


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--connect", required=True, metavar="HOST:PORT", help="the address given to the referee as --power-listen"
    )
    parser.add_argument(
        "--node",
        required=True,
        type=as_positive,
        metavar="I",
        help="the number of this node; the referee's own node is 0",
    )
    parser.add_argument(
        "--patience",
        type=as_seconds,
        default=300.0,
        metavar="SECONDS",
        help="how long to wait for the referee (default: %(default)g)",
    )


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(arguments.connect, arguments.node, arguments.patience)


def run(address: str, node: int, patience_s: float) -> ExitStatus:
    """Wait for the referee at `address` and serve it until its runs end.

    Raises:
        UsageError: the environment has no token, or there is no such address. TtaError: no referee answers, or it
            refuses this agent.
    """
    token = os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise UsageError(f"the environment has no {TOKEN_VARIABLE}; it must have the same value as for `tta run`")
    agent.main(address, node, token, patience_s)
    return ExitStatus.OK
