"""What the verbs about energy take: `tta agent`, `tta power`, and what `tta run` is told of its meters."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from harness.commands._arguments import Parser, add_verb, path, positive
from harness.errors import ExitStatus, printable

if TYPE_CHECKING:
    from harness.commands._arguments import Verbs
    from harness.metering.session import Wish


def add_power(parser: Parser) -> None:
    """Adds to `tta run` what is metered, and how."""
    parser.add_argument(
        "--meter",
        default="none",
        metavar="NAMES",
        help="powercap, nvml, ipmi, zeus, estimate, or a YAML file of meters in a network, separated by commas; auto: "
        "what measures here; none (default: %(default)s)",
    )
    parser.add_argument(
        "--meter-period", type=_period, metavar="SECONDS", help="between readings (default: the meter's)"
    )
    parser.add_argument("--idle", type=_seconds, metavar="SECONDS", help="idle baseline (default: 60 where measured)")
    parser.add_argument(
        "--power-nodes", type=positive, default=1, metavar="N", help="nodes that are metered (default: %(default)s)"
    )
    parser.add_argument("--power-listen", metavar="HOST:PORT", help="where the other nodes' `tta agent` connects")


def wish(arguments: argparse.Namespace) -> Wish:
    """What was said of meters, for `tta run`."""
    from harness.metering.session import Wish

    return Wish(
        meters=arguments.meter,
        num_nodes=arguments.power_nodes,
        listen=arguments.power_listen,
        idle_s=arguments.idle,
        period_s=arguments.meter_period,
    )


def add_agent(verbs: Verbs) -> None:
    """Adds `tta agent` to the verbs of the command line."""
    summary = "Read this node's meters for a run whose referee is on another node; the token is in TTA_POWER_TOKEN."
    parser = add_verb(verbs, "agent", summary, _call_agent)
    parser.add_argument("--connect", required=True, metavar="HOST:PORT", help="the referee's --power-listen")
    parser.add_argument("--node", required=True, type=positive, metavar="I", help="from 1; the referee's own node is 0")
    parser.add_argument(
        "--patience", type=_seconds, default=300.0, metavar="SECONDS", help="for the referee (default: %(default)g)"
    )


def _call_agent(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import agent

    return agent.run(arguments.connect, arguments.node, arguments.patience)


def add_power_verb(verbs: Verbs) -> None:
    """Adds `tta power` to the verbs of the command line."""
    summary = "Bring the readings of a meter that the harness did not read itself into a result."
    parser = add_verb(verbs, "power", summary, _call_power)
    parser.add_argument("action", choices=("import",))
    parser.add_argument("result", type=path, metavar="RESULT", help="a folder that `tta run` wrote")
    parser.add_argument("--run", required=True, type=_index, metavar="K", help="the run: result_<K>.txt")
    parser.add_argument("--node", type=_index, default=0, metavar="I", help="the node (default: %(default)s)")
    parser.add_argument("--csv", required=True, type=path, metavar="FILE", help="with a header, a reading a line")
    parser.add_argument("--time-column", required=True, metavar="NAME", help="ISO 8601 with zone, or epoch seconds")
    parser.add_argument("--power-column", required=True, metavar="NAME", help="watts")
    parser.add_argument(
        "--class", dest="meter_class", required=True, choices=("A", "B"), help="A: external, calibrated; B: its own"
    )
    parser.add_argument(
        "--accuracy",
        required=True,
        type=_accuracy,
        metavar="PCT",
        help="half width of the 95 %% interval, %% of reading",
    )
    parser.add_argument("--scope", choices=("ac", "dc"), default="ac", help="side of the supply (default: %(default)s)")
    parser.add_argument(
        "--offset", type=_number, default=0.0, metavar="SECONDS", help="to add to the file's times (default: 0)"
    )
    parser.add_argument(
        "--clock-error",
        type=_seconds,
        default=0.4,
        metavar="SECONDS",
        help="how far the meter's clock may be off after that (default: %(default)g)",
    )


def _call_power(arguments: argparse.Namespace) -> ExitStatus:
    from harness.commands import power

    return power.bring(
        power.Request(
            result=arguments.result,
            index=arguments.run,
            node=arguments.node,
            csv=arguments.csv,
            time_column=arguments.time_column,
            power_column=arguments.power_column,
            meter_class=arguments.meter_class,
            accuracy_pct=arguments.accuracy,
            scope=arguments.scope,
            offset_s=arguments.offset,
            clock_error_s=arguments.clock_error,
        )
    )


def _number(text: str, low: float = -1e9, high: float = 1e9) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not a number from {low:g} to {high:g}")
    return value


def _seconds(text: str) -> float:
    return _number(text, 0.0, 86_400.0)


def _period(text: str) -> float:
    return _number(text, 0.02, 60.0)


def _accuracy(text: str) -> float:
    return _number(text, 0.01, 100.0)


def _index(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 6:
        raise argparse.ArgumentTypeError(f"{printable(text)!r} is not a whole number from 0 to 999999")
    return int(text)
