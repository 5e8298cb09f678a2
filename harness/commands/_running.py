"""The options of the verbs that make runs: the system, the workers, the meters, the mirror."""

from __future__ import annotations

import argparse

from harness.commands._arguments import Parser, add_nodes, as_number, as_path, as_positive, as_seconds
from harness.launch import nodes
from harness.metering.session import MeterRequest
from harness.run import isolation
from harness.run.benchmark import Request


def add_running(parser: Parser) -> None:
    """Add what is not about what is run, but about where, how, and what is measured of it."""
    parser.add_argument("--system", type=as_path, metavar="FILE", help="system description (default: this machine's)")
    parser.add_argument(
        "--devices", type=as_positive, default=1, metavar="N", help="worker processes on each node (default: 1)"
    )
    add_nodes(parser)
    _add_meters(parser)
    parser.add_argument(
        "--mlflow",
        metavar="URI",
        help="tracking URI of the mirror (default: the one MLflow is configured with, or ./mlflow.db)",
    )
    parser.add_argument("--no-mlflow", action="store_true", help="no mirror")
    parser.add_argument(
        "--isolation",
        choices=isolation.MODES,
        default="auto",
        help="what confines the workers: full (refuse to run if this machine does not permit it), auto (the strongest "
        "form that it permits), none (default: %(default)s)",
    )
    parser.add_argument("--quiet", action="store_true", help="report only what went wrong")


def add_meter(parser: Parser) -> None:
    """Add what is metered on this machine, and how often."""
    parser.add_argument(
        "--meter",
        default="none",
        metavar="NAMES",
        help="powercap, nvml, ipmi, zeus, estimate, or a YAML file of network meters, separated by commas; auto: every "
        "meter that works here; none (default: %(default)s)",
    )
    parser.add_argument(
        "--meter-period", type=_period, metavar="SECONDS", help="time between readings (default: the meter's)"
    )


def _add_meters(parser: Parser) -> None:
    """Add what is metered, and how, on one node or several."""
    add_meter(parser)
    parser.add_argument(
        "--idle", type=as_seconds, metavar="SECONDS", help="length of the idle baseline (default: 60 with a meter)"
    )
    parser.add_argument(
        "--power-nodes", type=as_positive, default=1, metavar="N", help="number of metered nodes (default: %(default)s)"
    )
    parser.add_argument(
        "--power-listen", metavar="HOST:PORT", help="the address to listen on for `tta agent` on the other nodes"
    )


def _period(text: str) -> float:
    return as_number(text, 0.02, 60.0)


def request_of(arguments: argparse.Namespace) -> Request:
    """Return the request for no workload yet that the options of `add_running`, and those of the data, make."""
    return Request(
        workload="",
        ruleset=arguments.ruleset,
        data=arguments.data,
        source=arguments.source,
        system=arguments.system,
        devices=arguments.devices,
        nodes=arguments.nodes,
        launch=nodes.asked(arguments),
        power=MeterRequest(
            meters=arguments.meter,
            num_nodes=arguments.power_nodes,
            listen=arguments.power_listen,
            idle_s=arguments.idle,
            period_s=arguments.meter_period,
        ),
        mlflow=arguments.mlflow,
        is_mirrored=not arguments.no_mlflow,
        is_quiet=arguments.quiet,
        isolation=arguments.isolation,
    )
