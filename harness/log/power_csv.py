"""Reads the CSV file of an external meter, and makes a power log of its readings for one run.

One reading per line, under a header: a time (ISO 8601 with its zone, or seconds since the epoch) and watts. Nothing is
repaired or skipped: a line that is not a reading is an error that names it. An empty power cell is a reading that
failed.
"""

from __future__ import annotations

import csv
import math
import re
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Literal

from harness.base.values import MAX_NUMBER, is_whole, short_text
from harness.errors import LogError, UsageError, printable
from harness.log import keys, power_format
from harness.log.power_format import ClockOffset, MeterClass, MeterSpec, Sample, Scope
from harness.log.power_log import MAX_SAMPLES
from harness.log.run_log import RunLog

MAX_BYTES = 256 << 20
_EPOCH = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")
_WATTS = re.compile(r"[+-]?([0-9]{1,15}(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_UNIX = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
TimeKind = Literal["ISO 8601", "epoch seconds"]


@dataclass(frozen=True, slots=True)
class Trace:
    """The readings of a file. wall_ns: nanoseconds since the epoch, strictly increasing. watts: None if it failed."""

    wall_ns: tuple[int, ...]
    watts: tuple[float | None, ...]


def read_csv(path: Path, time_column: str, power_column: str) -> Trace:
    """Return the readings in the file at `path`.

    Raises:
        LogError: the file cannot be read, or a line is not a reading; names the line.
        UsageError: the file has no such column.
    """
    try:
        if not path.is_file():
            raise LogError(f"{path}: is not a file")
        if path.stat().st_size > MAX_BYTES:
            raise LogError(f"{path}: has more than {MAX_BYTES >> 20} MiB")
        with path.open(encoding="utf-8-sig", newline="") as stream:
            return _trace(_rows(stream, path), path, time_column, power_column)
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise LogError(f"{path}: is not UTF-8: {error.reason} at byte {error.start:,} of a piece") from None


def _rows(stream: Iterable[str], path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, cells) for every line that is not empty."""
    reader = csv.reader(_without_nul(stream, path), strict=True)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise LogError(f"{path}, line {reader.line_num}: not CSV: {printable(error)}") from None
        if row:
            yield reader.line_num, row


def _without_nul(stream: Iterable[str], path: Path) -> Iterator[str]:
    for number, line in enumerate(stream, 1):
        if "\0" in line:
            raise LogError(f"{path}, line {number}: has a NUL character")
        yield line


def _trace(rows: Iterator[tuple[int, list[str]]], path: Path, time_column: str, power_column: str) -> Trace:
    head = next(rows, None)
    if head is None:
        raise LogError(f"{path}: is empty")
    lineno, names = head[0], [name.strip() for name in head[1]]
    for option, name in (("--time-column", time_column), ("--power-column", power_column)):
        if names.count(name) != 1:
            how = "no column" if name not in names else f"{names.count(name)} columns"
            shown = printable(", ".join(names), 300)
            raise UsageError(f"{path}, line {lineno}: {option}: {how} {printable(name)!r}; there are: {shown}")
    at, power = names.index(time_column), names.index(power_column)
    times: list[int] = []
    watts: list[float | None] = []
    first: TimeKind | None = None
    for lineno, row in rows:
        place = f"{path}, line {lineno}"
        if len(row) != len(names):
            raise LogError(f"{place}: has {len(row)} cells; the header has {len(names)}")
        if len(times) >= MAX_SAMPLES:
            raise LogError(f"{place}: more than {MAX_SAMPLES:,} readings")
        wall_ns, kind = _time(row[at].strip(), place)
        if first is not None and kind != first:
            raise LogError(f"{place}: the time {printable(row[at], 60)!r} is {kind}; those before are {first}")
        first = kind
        if times and wall_ns <= times[-1]:
            how = (
                "is that of the previous reading" if wall_ns == times[-1] else "is before that of the previous reading"
            )
            raise LogError(f"{place}: the time {printable(row[at], 60)!r} {how}")
        times.append(wall_ns)
        watts.append(_power(row[power].strip(), place))
    if len([value for value in watts if value is not None]) < 2:
        raise LogError(f"{path}: has fewer than two readings")
    return Trace(tuple(times), tuple(watts))


def _time(text: str, place: str) -> tuple[int, TimeKind]:
    if _EPOCH.fullmatch(text):
        return int(Decimal(text) * 1_000_000_000), "epoch seconds"
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise LogError(
            f"{place}: {printable(text, 60)!r} is not a time; it must be ISO 8601 with its zone, or epoch seconds"
        ) from None
    if when.tzinfo is None:
        raise LogError(f"{place}: the time {printable(text, 60)!r} has no zone; write it with Z or +01:00")
    return (when - _UNIX) // timedelta(microseconds=1) * 1000, "ISO 8601"


def _power(text: str, place: str) -> float | None:
    if not text:
        return None
    shown = printable(text, 60)
    if not _WATTS.fullmatch(text):
        raise LogError(f"{place}: {shown!r} is not a power in watts; an empty cell is a reading that failed")
    watts = float(text)
    if watts < 0:
        raise LogError(f"{place}: {shown} W is negative")
    if not math.isfinite(watts) or watts > MAX_NUMBER:
        raise LogError(f"{place}: {shown} W is more than any machine draws")
    return watts


def spec_for(name: str, trace: Trace, meter_class: MeterClass, accuracy_pct: float, scope: Scope) -> MeterSpec:
    """Return the meter as a power log declares it; its period is the median step. name: the file's."""
    steps_ns = [later - earlier for earlier, later in pairwise(trace.wall_ns)]
    return MeterSpec(
        id=f"csv:{printable(name, 100)}",
        component="node",
        scope=scope,
        meter_class=meter_class,
        kind="power_w",
        period_s=statistics.median(steps_ns) / 1e9,
        source=f"{printable(name, 200)}, brought by a person",
        accuracy_pct=accuracy_pct,
    )


def node_log(log: RunLog, node: int, trace: Trace, spec: MeterSpec, offset_s: float, clock_error_s: float) -> str:
    """Return the text of `power/result_<k>/node_<node>.txt`: the readings on the monotonic clock of the run's referee.

    The run's wall clock relates the two clocks: `offset_s` is added to the file's times, and `clock_error_s` is how far
    they may be apart after that; the log has it as half of a round trip.

    Raises:
        LogError: the log does not say when its clock was zero or on which hosts it ran, or the readings do not overlap
            with the run.
        UsageError: the log has no node of that number.
    """
    start, stop = log.first(keys.RUN_START), log.first(keys.RUN_STOP)
    mono_ns = log.field(keys.TTA_CLOCK, "mono_ns")
    if start is None or stop is None or start.elapsed_ns is None or stop.elapsed_ns is None:
        raise LogError(
            f"{log.path}: has no {keys.RUN_START} and {keys.RUN_STOP}: there is no run to relate readings to"
        )
    if not is_whole(mono_ns):
        raise LogError(f"{log.path}: has no {keys.TTA_CLOCK}; it is older than power logs")
    hosts = _hosts(log)
    if node >= len(hosts):
        raise UsageError(f"--node {node}: the log names {len(hosts)} nodes: {printable(', '.join(hosts))}")
    # Wall time when the monotonic clock was zero; time_ms is rounded down to a millisecond, half of which is added.
    zero_ns = round((start.time_ms + 0.5) * 1e6) - start.elapsed_ns - mono_ns
    offset_ns = round(offset_s * 1e9)
    samples = [
        Sample(wall_ns + offset_ns - zero_ns, value) for wall_ns, value in zip(trace.wall_ns, trace.watts, strict=True)
    ]
    start_ns, stop_ns = mono_ns + start.elapsed_ns, mono_ns + stop.elapsed_ns
    if samples[-1].mono_ns <= start_ns or samples[0].mono_ns >= stop_ns:
        raise LogError(
            f"the readings are from {_shown(samples[0].mono_ns + zero_ns)} to {_shown(samples[-1].mono_ns + zero_ns)}, "
            f"the run from {_shown(start_ns + zero_ns)} to {_shown(stop_ns + zero_ns)}: they do not overlap"
        )
    if samples[0].mono_ns < 0:
        raise LogError("the readings begin before the machine of the run was booted")

    def wall_ms(at_ns: int) -> int:
        return (at_ns + zero_ns) // 1_000_000

    run_id = log.field(keys.TTA_FORMAT, "run_id")
    first_ns, last_ns = samples[0].mono_ns, samples[-1].mono_ns
    lines = [
        power_format.opening_line(
            wall_ms(first_ns), node=f"node_{node}", host=hosts[node], run_id=run_id if isinstance(run_id, str) else None
        ),
        power_format.meter_line(wall_ms(first_ns), spec),
        power_format.start_line(wall_ms(first_ns), first_ns),
    ]
    for at_ns in (first_ns, last_ns):
        offset = ClockOffset(at_ns, 0, round(2 * clock_error_s * 1e9))
        lines.append(power_format.clock_offset_line(wall_ms(at_ns), offset))
    lines += [
        power_format.reading_line(wall_ms(sample.mono_ns), spec, sample, seq) for seq, sample in enumerate(samples)
    ]
    lines.append(power_format.stop_line(wall_ms(last_ns), last_ns))
    return "".join(lines)


def _hosts(log: RunLog) -> list[str]:
    """Return the hosts of the run in the order of their first rank."""
    world = log.value(keys.TTA_WORLD)
    ranks = world if isinstance(world, list) else []
    found = [host for rank in ranks if isinstance(rank, dict) and isinstance(host := rank.get("host"), str)]
    return [host for host in dict.fromkeys(found) if short_text(host) is not None]


def _shown(wall_ns: int) -> str:
    try:
        return (_UNIX + timedelta(microseconds=wall_ns // 1000)).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError:
        return "a time beyond the calendar"
