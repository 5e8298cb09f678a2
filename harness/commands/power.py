"""`tta power import`: import the readings of a meter that `tta` did not read into a result that `tta run` wrote."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from harness.base.files import write_new
from harness.commands._arguments import Parser, as_index, as_number, as_path, as_seconds
from harness.errors import ExitStatus, LogError, UsageError, printable
from harness.log import run_log
from harness.log.power_csv import node_log, read_csv, spec_for
from harness.log.power_format import MeterClass, Scope
from harness.metering.session import run_folder


@dataclass(frozen=True, slots=True)
class Request:
    """What to import, and where. offset_s: seconds to add to the times of the file."""

    result: Path
    index: int
    csv: Path
    time_column: str
    power_column: str
    meter_class: MeterClass
    accuracy_pct: float
    node: int = 0
    scope: Scope = "ac"
    offset_s: float = 0.0
    clock_error_s: float = 0.4


def add_arguments(parser: Parser) -> None:
    parser.add_argument("action", choices=("import",), help="write the readings as a power log of the result")
    parser.add_argument("result", type=as_path, metavar="RESULT", help="a folder that `tta run` wrote")
    parser.add_argument("--run", required=True, type=as_index, metavar="K", help="the run: result_<K>.txt")
    parser.add_argument("--node", type=as_index, default=0, metavar="I", help="the node (default: %(default)s)")
    parser.add_argument(
        "--csv",
        required=True,
        type=as_path,
        metavar="FILE",
        help="the readings, with a header and one reading per line",
    )
    parser.add_argument(
        "--time-column", required=True, metavar="NAME", help="ISO 8601 with a time zone, or epoch seconds"
    )
    parser.add_argument("--power-column", required=True, metavar="NAME", help="watts")
    parser.add_argument(
        "--class",
        dest="meter_class",
        required=True,
        choices=("A", "B"),
        help="A: an external, calibrated meter; B: the node's own",
    )
    parser.add_argument(
        "--accuracy",
        required=True,
        type=_accuracy,
        metavar="PCT",
        help="half width of the 95 %% interval, in %% of the reading",
    )
    parser.add_argument(
        "--scope", choices=("ac", "dc"), default="ac", help="the side of the power supply (default: %(default)s)"
    )
    parser.add_argument(
        "--offset", type=as_number, default=0.0, metavar="SECONDS", help="to add to the times of the file (default: 0)"
    )
    parser.add_argument(
        "--clock-error",
        type=as_seconds,
        default=0.4,
        metavar="SECONDS",
        help="how far the meter's clock may still be off (default: %(default)g)",
    )


def call(arguments: argparse.Namespace) -> ExitStatus:
    return import_readings(
        Request(
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


def import_readings(request: Request) -> ExitStatus:
    """Write the power log of one node of one run, whole or not at all, and print what it holds.

    Raises:
        LogError: the run's log or the file cannot be read, or they have no time in common.
        UsageError: no such run, column or node. OutputError: the power log exists already, or cannot be written.
    """
    path = request.result / f"result_{request.index}.txt"
    if not path.exists():
        raise UsageError(f"--run {request.index}: {path}: there is no such run")
    log = run_log.read(path)
    trace = read_csv(request.csv, request.time_column, request.power_column)
    spec = spec_for(request.csv.name, trace, request.meter_class, request.accuracy_pct, request.scope)
    try:
        text = node_log(log, request.node, trace, spec, request.offset_s, request.clock_error_s)
    except LogError as error:
        raise LogError(f"{request.csv}: {error}") from None
    output = run_folder(request.result, request.index) / f"node_{request.node}.txt"
    write_new(output, text.encode(), "exists already; a power log is never overwritten")
    print(f"{printable(output, 1000)}: {len(trace.watts):,} readings, {spec.period_s:g} s apart")
    return ExitStatus.OK


def _accuracy(text: str) -> float:
    return as_number(text, 0.01, 100.0)
