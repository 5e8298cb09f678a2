"""`tta agent`: the power agent of this node, for a run refereed on another node."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.base.typed_yaml import load_yaml
from harness.commands._arguments import Parser, as_path, as_positive, as_seconds
from harness.errors import ExitStatus
from harness.metering import agent
from harness.metering.agent_connection import POWER
from harness.metering.sources import sources_of


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
        "--meter",
        type=as_path,
        metavar="FILE",
        help="a YAML file of the network meters that this agent may open, as given to the referee; the others that a "
        "referee requests are refused (default: none; the node's own meters need no permission)",
    )
    parser.add_argument(
        "--patience",
        type=as_seconds,
        default=300.0,
        metavar="SECONDS",
        help="how long to wait for the referee (default: %(default)g)",
    )


def call(arguments: argparse.Namespace) -> ExitStatus:
    return run(arguments.connect, arguments.node, arguments.meter, arguments.patience)


def run(address: str, node: int, meters: Path | None, patience_s: float) -> ExitStatus:
    """Wait for the referee at `address` and serve it until its runs end. meters: the file of permitted meters.

    Raises:
        UsageError: the environment has no token, or there is no such address. RulesError: the file is malformed.
        TtaError: no referee answers, it is not this run's, or it refuses this agent.
    """
    token = POWER.token()
    permitted = () if meters is None else sources_of(load_yaml(meters), str(meters))
    agent.main(address, node, token, patience_s, [source for source in permitted if source.node == node])
    return ExitStatus.OK
