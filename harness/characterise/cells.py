"""The cells of a sweep, what was measured in each, and what follows from several of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.base.values import finite_number, is_whole
from harness.characterise import power as powers
from harness.characterise.power import UNKNOWN, Drawn
from harness.characterise.summaries import StraightLine, Summary, straight_line, summary

REAL, SYNTHETIC = "real", "synthetic"
KINDS = (REAL, SYNTHETIC)
Status = Literal["ok", "oom", "refused", "failed"]


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One configuration. batch_size: global."""

    num_devices: int
    precision: str
    batch_size: int
    data: str


@dataclass(frozen=True, slots=True)
class Row:
    """What came of a cell.

    status: ok; oom: it does not fit; refused: the workload or the machine does not take it; failed. evidence: why.
    seconds: of each step; waited: of each, for data, as the session says. peak_bytes: the largest memory of the process
    up to then: an accelerator's, else what was resident. power: of further steps with real data.
    """

    cell: Cell
    status: Status
    evidence: str = ""
    seconds: tuple[float, ...] = ()
    waited: tuple[float, ...] = ()
    peak_bytes: int | None = None
    power: Drawn = UNKNOWN

    @property
    def is_final(self) -> bool:
        """Whether another attempt would say the same."""
        return self.status != "failed"

    @property
    def step(self) -> Summary:
        """Of the steps' seconds; only of a row that is ok."""
        return summary(self.seconds)

    @property
    def samples_per_s(self) -> float:
        return self.cell.batch_size / self.step.median


@dataclass(frozen=True, slots=True)
class InputShare:
    """How much of a step with real data is due to them: 1 - synthetic / real. real_s, synthetic_s: median steps."""

    cell: Cell
    real_s: float
    synthetic_s: float

    @property
    def fraction(self) -> float:
        """At most 1; negative where the steps with real data were faster, by noise."""
        return 1 - self.synthetic_s / self.real_s


@dataclass(frozen=True, slots=True)
class Intercept:
    """Seconds of a step against its batch size: the intercept is what a step without any work would take."""

    cell: Cell
    line: StraightLine
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Scaling:
    """How the pace grows with the devices. kind: strong: one global batch; weak: one batch for each device.

    efficiency: of the pace per device, relative to that of the fewest devices.
    """

    kind: Literal["strong", "weak"]
    cell: Cell
    base: Cell
    step_s: float
    base_s: float

    @property
    def speedup(self) -> float:
        """Of the samples a second."""
        return self.cell.batch_size / self.step_s / (self.base.batch_size / self.base_s)

    @property
    def efficiency(self) -> float:
        return self.speedup * self.base.num_devices / self.cell.num_devices


@dataclass(frozen=True, slots=True)
class Fit:
    """The largest batch that fits among those that were tried. fails_at: the smallest that did not, and why."""

    cell: Cell
    largest: int | None
    fails_at: int | None
    evidence: str


def grid(
    batch_sizes: Iterable[int], precisions: Iterable[str], kinds: Iterable[str], devices: Iterable[int]
) -> list[Cell]:
    """All combinations, once each, in the order in which they are measured: a process has one precision."""
    return sorted(
        {Cell(n, p, batch, kind) for n in devices for p in precisions for batch in batch_sizes for kind in kinds}
    )


def input_shares(rows: Sequence[Row]) -> list[InputShare]:
    """Of each configuration that was measured with real and with synthetic data."""
    found = {row.cell: row for row in rows if row.status == "ok"}
    return [
        InputShare(cell, row.step.median, other.step.median)
        for cell, row in sorted(found.items(), key=lambda item: item[0])
        if cell.data == REAL
        and (other := found.get(Cell(cell.num_devices, cell.precision, cell.batch_size, SYNTHETIC))) is not None
    ]


def intercepts(rows: Sequence[Row]) -> list[Intercept]:
    """A line for each configuration that was measured at several batch sizes."""
    found = []
    for group in _groups(rows, lambda cell: (cell.num_devices, cell.precision, cell.data)):
        points = tuple((float(row.cell.batch_size), row.step.median) for row in group)
        if (line := straight_line(points)) is not None:
            found.append(Intercept(group[0].cell, line, points))
    return found


def scalings(rows: Sequence[Row]) -> list[Scaling]:
    """Strong and weak scaling, relative to the fewest devices of each group."""
    found: list[Scaling] = []
    strong = _groups(rows, lambda cell: (cell.precision, cell.data, cell.batch_size))
    weak = _groups(rows, lambda cell: (cell.precision, cell.data, cell.batch_size / cell.num_devices))
    kinds: tuple[tuple[Literal["strong", "weak"], list[list[Row]]], ...] = (("strong", strong), ("weak", weak))
    for kind, groups in kinds:
        for first, *others in groups:
            found += [
                Scaling(kind, row.cell, first.cell, row.step.median, first.step.median)
                for row in others
                if row.cell.num_devices > first.cell.num_devices
            ]
    return found


def fits(rows: Sequence[Row]) -> list[Fit]:
    """The largest batch of each number of devices and precision."""
    found = []
    keys = sorted({(row.cell.num_devices, row.cell.precision) for row in rows})
    for key in keys:
        own = [row for row in rows if (row.cell.num_devices, row.cell.precision) == key]
        failing = min((row for row in own if row.status == "oom"), key=lambda row: row.cell.batch_size, default=None)
        largest = max((row.cell.batch_size for row in own if row.status == "ok"), default=None)
        fails_at = None if failing is None else failing.cell.batch_size
        found.append(Fit(own[0].cell, largest, fails_at, "" if failing is None else failing.evidence))
    return found


def _groups(rows: Sequence[Row], key: Callable[[Cell], tuple[Any, ...]]) -> list[list[Row]]:
    """The rows that are ok, by a key of their cells, each group in the cells' order."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted((row for row in rows if row.status == "ok"), key=lambda row: row.cell):
        found.setdefault(key(row.cell), []).append(row)
    return list(found.values())


def as_record(row: Row) -> dict[str, Any]:
    """A row as a line of the file has it."""
    cell = row.cell
    return {
        "batch_size": cell.batch_size,
        "precision": cell.precision,
        "data": cell.data,
        "num_devices": cell.num_devices,
        "status": row.status,
        "evidence": row.evidence,
        "seconds": list(row.seconds),
        "waited": list(row.waited),
        "peak_bytes": row.peak_bytes,
        "power": powers.as_record(row.power),
    }


def of_record(record: object) -> Row:
    """The row of a line.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(record, dict):
        raise ValueError("not an object")
    batch_size, devices, peak = (record.get(name) for name in ("batch_size", "num_devices", "peak_bytes"))
    texts = [record.get(name) for name in ("precision", "data", "status", "evidence")]
    if not (is_whole(batch_size) and is_whole(devices) and batch_size > 0 and devices > 0):
        raise ValueError("batch_size and num_devices must be whole numbers above 0")
    if not all(isinstance(text, str) for text in texts) or texts[2] not in ("ok", "oom", "refused", "failed"):
        raise ValueError("precision, data, status or evidence is missing, or no status that there is")
    seconds, waited = (tuple(_times(record.get(name))) for name in ("seconds", "waited"))
    if texts[2] == "ok" and not (seconds and min(seconds) > 0):
        raise ValueError("a row that is ok needs the seconds of its steps")
    precision, data, status, evidence = (str(text) for text in texts)
    cell = Cell(devices, precision, batch_size, data)
    power = powers.of_record(record.get("power"))
    return Row(cell, status, evidence, seconds, waited, peak if is_whole(peak) else None, power)  # type: ignore[arg-type]


def _times(values: object) -> Iterator[float]:
    for value in values if isinstance(values, list) else ():
        number = finite_number(value)
        if number is None or not 0 <= number < math.inf:
            raise ValueError("a time that is none")
        yield number
