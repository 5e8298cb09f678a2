"""`tta power import`: readings of a meter that the harness did not read, into a result of its own making."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ExitStatus, LogError, OutputError, UsageError, printable
from harness.log import run_log
from harness.log.power_csv import node_log, read_csv, spec_for
from harness.log.power_format import MeterClass, Scope
from harness.metering.recording import run_folder


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for. offset_s: to be added to the file's times, in seconds."""

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


def bring(request: Request) -> ExitStatus:
    """Writes the power log of one node of one run, whole or not at all, and says what it holds.

    Raises:
        LogError: the run's log or the file cannot be read, or they have no time in common.
        UsageError: no such run, column or node. OutputError: there is such a power log already, or it cannot be made.
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
    _write(output, text.encode())
    print(f"{printable(output, 1000)}: {len(trace.watts):,} readings, {spec.period_s:g} s apart")
    return ExitStatus.OK


def _write(output: Path, data: bytes) -> None:
    draft = output.with_name(f".{output.name}.{os.getpid()}.draft")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        try:
            with draft.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.link(draft, output)  # unlike a rename, a link never replaces what is there
        finally:
            with contextlib.suppress(FileNotFoundError):
                draft.unlink()
    except FileExistsError:
        raise OutputError(f"{printable(output, 1000)}: is there already; a power log is never written over") from None
    except OSError as error:
        raise OutputError(f"{printable(output, 1000)}: cannot be written: {error.strerror}") from None
