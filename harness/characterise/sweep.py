"""Measures the cells of a sweep, one after another, and keeps each in a file as soon as it is known.

The file has a JSON object a line: what was swept and where, then a row for each cell. A sweep that is called again with
the same folder goes on with the cells that are missing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from harness import __version__
from harness.base.files import small_file
from harness.base.strict_json import loads
from harness.base.values import finite_number, is_whole
from harness.characterise.asking import Ask, OutOfMemory, asked, training
from harness.characterise.cells import KINDS, REAL, Cell, Row, Status, as_record, of_record
from harness.characterise.planning import planned
from harness.characterise.power import UNKNOWN, Drawn
from harness.characterise.wattmeter import Wattmeter, opened
from harness.errors import DataError, Interrupted, OutputError, UsageError, WorkerError, printable
from harness.metering.session import MeterRequest
from harness.ruleset.model import RuleSet
from harness.run.benchmark import Request

FORMAT_VERSION = 1
KIND = "tta_sweep"
FILE = "cells.jsonl"
MAX_FILE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Sweep:
    """The cells that were measured. made: when the first of them was, in seconds since 1970."""

    benchmark: str
    num_steps: int
    made: float
    system: Mapping[str, Any]
    rows: tuple[Row, ...]

    @property
    def header(self) -> dict[str, Any]:
        """The first line of the file."""
        origin = {"kind": KIND, "version": FORMAT_VERSION, "tta": __version__, "benchmark": self.benchmark}
        return {**origin, "num_steps": self.num_steps, "made": self.made, "system": dict(self.system)}


def sweep(
    request: Request,
    cells: Sequence[Cell],
    num_steps: int,
    folder: Path,
    ruleset: RuleSet,
    say: Callable[[str], None],
    processes: Callable[[int], AbstractContextManager[Ask]] = asked,
    metered: Callable[
        [MeterRequest, Mapping[str, Any], Callable[[str], None]], AbstractContextManager[Wattmeter]
    ] = opened,
) -> Sweep:
    """Measure the cells that the folder's file lacks. processes: starts those that measure, for so many devices.

    metered: opens the meters that are read meanwhile.

    Raises:
        UsageError: the benchmark does not exist, or the file is of another sweep. OutputError: it cannot be written.
        Interrupted: by a signal; the same call goes on.
    """
    plan = planned(request, None, ruleset)
    found = Sweep(plan.rules.name, num_steps, time.time(), dict(plan.system), ())
    path = folder / FILE
    if path.exists():
        found = _continued(read(path, mends=True), found, path)
    else:
        _append(path, found.header)
    rows = {row.cell: row for row in found.rows if row.is_final}
    missing = [cell for cell in cells if cell not in rows]
    say(f"{found.benchmark}: {len(missing)} of {len(cells)} cells to measure, {num_steps} steps each")
    with metered(request.power if missing else MeterRequest(), plan.system, say) as meters:
        for row in _measured(request, missing, num_steps, ruleset, processes, meters):
            rows[row.cell] = row
            _append(path, as_record(row))
            say(_words(row))
    return Sweep(found.benchmark, num_steps, found.made, found.system, tuple(rows[cell] for cell in sorted(rows)))


def _words(row: Row) -> str:
    cell = row.cell
    what = f"{row.samples_per_s:,.0f} samples/s" if row.status == "ok" else f"{row.status}: {row.evidence}"
    return f"batch {cell.batch_size}, {cell.precision}, {cell.data}, {cell.num_devices} device(s): {what}"


def _measured(
    request: Request,
    cells: Sequence[Cell],
    num_steps: int,
    ruleset: RuleSet,
    processes: Callable[[int], AbstractContextManager[Ask]],
    meters: Wattmeter,
) -> Iterator[Row]:
    """Measure cell by cell; those of one precision and number of devices in the same processes, while they live."""
    for (num_devices, precision), group in groupby(cells, key=lambda cell: (cell.num_devices, cell.precision)):
        with ExitStack() as stack:
            ask: Ask | None = None
            for batch_size, same in groupby(group, key=lambda cell: cell.batch_size):
                wanted = list(same)
                try:
                    own = replace(request, devices=num_devices, precision=precision)
                    plan = planned(own, batch_size, ruleset)
                    if ask is None:
                        ask = stack.enter_context(processes(num_devices))
                    kinds = [cell.data for cell in wanted]
                    command, power = training(plan, do="window", kinds=kinds, num_steps=num_steps), UNKNOWN
                    if REAL in kinds:
                        answer, power = meters.asked(ask, command)
                    else:
                        answer = ask(command)
                    yield from (_row(cell, answer, power if cell.data == REAL else UNKNOWN) for cell in wanted)
                except Interrupted:
                    raise
                except (UsageError, DataError, WorkerError) as error:
                    status: Status = "failed" if isinstance(error, WorkerError) else "refused"
                    if isinstance(error, OutOfMemory):
                        status = "oom"
                    yield from (Row(cell, status, printable(error, 500)) for cell in wanted)
                    if isinstance(error, WorkerError):
                        stack.close()  # processes that have failed are of no further use
                        ask = None


def _row(cell: Cell, answer: Mapping[str, Any], power: Drawn) -> Row:
    window, peak = answer["windows"][cell.data], answer["peak_memory"]
    allocated = peak["accelerator_allocated"]
    used = peak["host_resident"] if allocated is None else allocated
    return Row(cell, "ok", "", tuple(window["seconds"]), tuple(window["waited"]), used, power)


def _append(path: Path, record: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(dict(record), allow_nan=False) + "\n")
    except OSError as error:
        raise OutputError(f"{printable(path, 1000)}: cannot be written: {error.strerror}") from None


def _continued(there: Sweep, new: Sweep, path: Path) -> Sweep:
    """The sweep that is there, if the new one goes on with it."""
    for name, words in (("benchmark", "of"), ("num_steps", "with a number of steps of")):
        one, other = getattr(there, name), getattr(new, name)
        if one != other:
            raise UsageError(f"{path}: is a sweep {words} {printable(one)}, not {other}; choose another --out")
    machines = [found.system.get("system_name") for found in (there, new)]
    if machines[0] != machines[1]:
        raise UsageError(f"{path}: is a sweep on {printable(machines[0])}, and this is {printable(machines[1])}")
    return there


def read(path: Path, mends: bool = False) -> Sweep:
    """The sweep in a file. A last line that was cut off is left out.

    mends: cut it off in the file as well, so that what follows is on a line of its own.

    Raises:
        UsageError: the file is none of a sweep; the message names the line.
    """
    data = small_file(path, MAX_FILE_BYTES)
    lines = data.split(b"\n")
    if mends and lines[-1]:
        try:
            with path.open("r+b") as stream:
                stream.truncate(len(data) - len(lines[-1]))
        except OSError as error:
            raise OutputError(f"{printable(path, 1000)}: cannot be written: {error.strerror}") from None
    rows: dict[Cell, Row] = {}
    header: dict[str, Any] | None = None
    for number, line in enumerate(lines[:-1], 1):
        try:
            record = loads(line)
            if header is None:
                header = _header(record)
            else:
                row = of_record(record)
                rows[row.cell] = row
        except ValueError as error:
            raise UsageError(f"{printable(path, 1000)}:{number}: {printable(error, 300)}") from None
    if header is None:
        raise UsageError(f"{printable(path, 1000)}: has no line; it is not a sweep's {FILE}")
    return Sweep(header["benchmark"], header["num_steps"], header["made"], header["system"], tuple(rows.values()))


def _header(record: object) -> dict[str, Any]:
    if not isinstance(record, dict) or record.get("kind") != KIND or record.get("version") != FORMAT_VERSION:
        raise ValueError(f"is not the first line of a sweep (kind {KIND}, version {FORMAT_VERSION})")
    is_sound = isinstance(record.get("benchmark"), str) and is_whole(record.get("num_steps"))
    if not is_sound or finite_number(record.get("made")) is None or not isinstance(record.get("system"), dict):
        raise ValueError("benchmark, num_steps, made or system is missing")
    return record


def check_kinds(kinds: Sequence[str]) -> None:
    """Raises UsageError for a kind of data that there is not."""
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"--data: {printable(kind)!r} is none of {', '.join(KINDS)}")
