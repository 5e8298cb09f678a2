"""A preflight: what a machine reaches in single operations, and how that compares with machines like it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import __version__
from harness.base.files import small_file
from harness.base.strict_json import loads
from harness.base.values import finite_number, is_whole, mapping_or_empty, short_text
from harness.characterise import disk
from harness.characterise.asking import Ask, asked
from harness.characterise.clocks import State, as_record, disturbances
from harness.errors import InputError, UsageError, printable
from harness.log.events import digest_of
from harness.submission.preflight import CONVOLUTION, COPY, DISK, LIKE, PRODUCT, TIME_FORMAT, VARYING
from harness.submission.system import PREFLIGHT_KEY

FORMAT_VERSION = 1
KIND = "tta_preflight"
LIMIT_S = 45.0  # of the operations; with the start of the processes and the disk a preflight is within a minute
LEAST_S = 0.2  # of each operation
SLOW_FRACTION = 0.1  # below the median of like machines
UNSTEADY = 0.1  # interquartile range relative to the median


@dataclass(frozen=True, slots=True)
class Quantity:
    """One rate, of which more is better. unit: FLOP/s or B/s. iqr_fraction: its spread, relative to it."""

    name: str
    value: float
    unit: str
    iqr_fraction: float
    num: int


@dataclass(frozen=True, slots=True)
class Preflight:
    """What was measured on a machine. made: in seconds since 1970. measured: as `program.preflight` has it."""

    made: float
    system: Mapping[str, Any]
    num_devices: int
    measured: Mapping[str, Any]
    disk: Mapping[str, Any] | None
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    disturbances: tuple[str, ...]

    @property
    def kind(self) -> tuple[object, ...]:
        """What two machines have in common that are alike, and with how many processes they were measured."""
        return (self.num_devices, *(self.system.get(name) for name in LIKE))

    @property
    def num_threads(self) -> int:
        """Of all processes together."""
        return sum(int(rank["num_threads"]) for rank in self.measured["world"])

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        return tuple(_quantities(self.measured, self.disk))

    def peak(self, precision: str) -> float | None:
        """FLOP/s of the fastest matrix product in a precision, of all devices; None where none was measured."""
        rates = [one["flop_per_s"] for one in self.measured["matrix_products"] if one["precision"] == precision]
        return max(rates) * self.num_devices if rates else None


def _quantities(measured: Mapping[str, Any], of_disk: Mapping[str, Any] | None) -> Iterator[Quantity]:
    for one in measured["matrix_products"]:
        yield _quantity(f"{PRODUCT} {' x '.join(map(str, one['shape']))}, {one['precision']}", one, "FLOP/s")
    for one in measured["convolutions"]:
        yield _quantity(f"{CONVOLUTION} {_problem(one['shape'])}, {one['precision']}", one, "FLOP/s")
    for one in measured["memory"]:
        yield _quantity("reading memory", one, "B/s")
    for one in measured["copies"]:
        yield _quantity(f"{COPY} {one['name']}", one, "B/s")
    for one in measured["all_reduces"]:
        size = f"{one['bytes'] >> 20} MiB" if one["bytes"] >> 20 else f"{one['bytes'] >> 10} KiB"
        yield _quantity(f"all-reduce of {size} over {one['ranks']}, bus", one, "B/s")
    if of_disk is not None:
        yield _quantity(DISK, of_disk, "B/s")


def _problem(shape: Sequence[int]) -> str:
    images, channels, height, width, filters, kernel, stride = shape
    return f"{images} x {channels} x {height} x {width} by {filters} of {kernel} x {kernel} / {stride}"


def _quantity(name: str, one: Mapping[str, Any], unit: str) -> Quantity:
    value, iqr_s, median_s = (
        finite_number(one[key]) for key in ("flop_per_s" if unit == "FLOP/s" else "bytes_per_s", "iqr_s", "median_s")
    )
    if value is None or iqr_s is None or not median_s:
        raise ValueError(f"{printable(name, 100)} has no number")
    return Quantity(name, value, unit, iqr_s / median_s, int(one["num"]))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A quantity next to those of like machines. ratio: of the own value to their median."""

    name: str
    ratio: float
    num_others: int

    @property
    def is_slow(self) -> bool:
        return self.ratio < 1 - SLOW_FRACTION - 1e-9  # the limit itself is permitted, whatever its last digit

    @property
    def words(self) -> str:
        """ "18 % below the median of 12"."""
        side = "below" if self.ratio < 1 else "above"
        return f"{100 * abs(self.ratio - 1):.0f} % {side} the median of {self.num_others}"


def compared(own: Preflight, others: Iterable[Preflight]) -> tuple[Comparison, ...]:
    """Each quantity next to those of the machines that are like this one; nothing where there are none."""
    alike = [other for other in others if other.kind == own.kind]
    known: dict[str, list[float]] = {}
    for other in alike:
        for quantity in other.quantities:
            known.setdefault(quantity.name, []).append(quantity.value)
    return tuple(
        Comparison(quantity.name, quantity.value / statistics.median(known[quantity.name]), len(known[quantity.name]))
        for quantity in own.quantities
        if quantity.name in known
    )


def warnings(own: Preflight, comparisons: Sequence[Comparison]) -> list[str]:
    """What is wrong with the machine, or with the measurement, in words."""
    found = [*own.disturbances]
    found += [f"{one.name}: {one.words} like it" for one in comparisons if one.is_slow]
    found += [
        f"{one.name}{VARYING} {100 * one.iqr_fraction:.0f} % (interquartile range): was the machine busy?"
        for one in own.quantities
        if one.iqr_fraction > UNSTEADY
    ]
    if own.measured["fp32_is_tf32"]:
        found.append("products of float32 lose digits as TF32 does, where fp32 was asked for: look for what sets it")
    if any(not one["is_right"] for one in own.measured["all_reduces"]):
        found.append("a sum over the devices was wrong: one of them, or a link, is defective")
    if own.measured["skipped"]:
        found.append(f"not measured within {LIMIT_S:.0f} s: {', '.join(own.measured['skipped'])}")
    return found


def preflight(
    system: Mapping[str, Any],
    num_devices: int,
    folder: Path | None,
    look: Callable[[], State],
    processes: Callable[[int], AbstractContextManager[Ask]] = asked,
) -> Preflight:
    """Measure this machine. folder: whose disk is read; None: none. look: reads clocks and counters.

    Raises:
        OutputError: the folder cannot be written. WorkerError: the processes failed. Interrupted: by a signal.
    """
    made = time.time()
    of_disk = None if folder is None else disk.reading(folder)
    with processes(num_devices) as ask:
        before = look()
        measured = ask({"do": "preflight", "limit_s": LIMIT_S, "least_s": LEAST_S})
        after = look()
    del measured["ok"]
    found = tuple(disturbances(before, after))
    return Preflight(made, dict(system), num_devices, measured, of_disk, as_record(before), as_record(after), found)


def document(own: Preflight, comparisons: Sequence[Comparison] = ()) -> dict[str, Any]:
    """The preflight as JSON has it; `read` takes it back."""
    return {
        "kind": KIND,
        "version": FORMAT_VERSION,
        "tta": __version__,
        "made": own.made,
        "num_devices": own.num_devices,
        "system": dict(own.system),
        "measured": dict(own.measured),
        "disk": None if own.disk is None else dict(own.disk),
        "before": dict(own.before),
        "after": dict(own.after),
        "disturbances": list(own.disturbances),
        "compared": [{"name": one.name, "ratio": one.ratio, "num_others": one.num_others} for one in comparisons],
        "warnings": warnings(own, comparisons),
    }


def in_description(own: Preflight) -> dict[str, Any]:
    """What a system description has of a preflight, as `harness.submission.preflight` reads it: rates, and a digest."""
    shown = document(own)
    return {
        "made": time.strftime(TIME_FORMAT, time.gmtime(own.made)),
        "devices": own.num_devices,
        "threads": own.num_threads,
        "rates": {one.name: float(f"{one.value:.4g}") for one in own.quantities},
        "warnings": warnings(own, ()),
        "digest": digest_of({name: value for name, value in shown.items() if name not in ("compared", "warnings")}),
    }


def described(description: Mapping[str, Any], own: Preflight) -> dict[str, Any]:
    """A system description that carries the preflight."""
    return {**description, PREFLIGHT_KEY: in_description(own)}


def read(path: Path) -> Preflight:
    """The preflight in a file.

    Raises:
        InputError: it is none.
    """
    try:
        return _parsed(loads(small_file(path)))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{printable(path, 1000)}: is not a preflight: {printable(error, 200)}") from None


def _parsed(record: object) -> Preflight:
    if not isinstance(record, dict) or record.get("kind") != KIND or record.get("version") != FORMAT_VERSION:
        raise ValueError(f"expected a document of kind {KIND}, version {FORMAT_VERSION}")
    made, num_devices = finite_number(record.get("made")), record.get("num_devices")
    measured, system = record.get("measured"), record.get("system")
    if made is None or not is_whole(num_devices) or not isinstance(measured, dict) or not isinstance(system, dict):
        raise ValueError("made, num_devices, measured or system is missing")
    found = Preflight(
        made,
        {name: short_text(value) for name, value in system.items()},
        num_devices,
        measured,
        record.get("disk"),
        mapping_or_empty(record.get("before")),
        mapping_or_empty(record.get("after")),
        tuple(map(str, record.get("disturbances") or ())),
    )
    for quantity in found.quantities:
        if quantity.value <= 0:
            raise ValueError(f"{printable(quantity.name, 100)} is {printable(quantity.value, 60)}")
    return found


def history(folder: Path) -> Iterator[Preflight]:
    """The preflights that are kept in a folder; files that are none are passed over.

    Raises:
        UsageError: it is not a folder.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{printable(folder, 1000)}: is not a folder of preflights")
    for path in sorted(folder.glob("*.json")):
        try:
            yield read(path)
        except InputError:
            continue
