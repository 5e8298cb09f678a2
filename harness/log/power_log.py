"""Reads the power log of a node, `tta`'s or MLPerf's, in one pass. Nothing is repaired: what is odd becomes a defect.

The file may hold anything: lines without an end, not UTF-8, not JSON, cut off by a crash, or another program's. A
reading whose value is not a power or an energy becomes a failed read (None), so that its time is kept. Defects by kind:

    the file      empty (no line has the token), overlong (a line), not_utf8, control_character, malformed (not JSON, or
                  not an event), key_doubled (a JSON key twice), cut_off (the last line has no end), too_many
    the event     event_type_wrong, metadata_empty ("" or null), metadata_malformed, null_as_text ("null"), key_unknown
    the log       format_missing, format_doubled, format_malformed, node_differs, dialect_mixed, start_missing,
                  start_doubled, stop_missing, stop_doubled, stop_equals_start, stop_before_start
    time          time_malformed, time_doubled, time_backwards (against the meter's previous reading), wall_moved
                  (time_ms and mono_ns moved apart), sequence (`seq` is not the meter's next)
    the meters    meter_malformed, meter_doubled, meter_undeclared, kind_wrong (watts of a counter, or joules of a
                  power meter), value_malformed, value_negative, not_a_number (NaN or infinite)
    the values    conversion_eff_malformed, conversion_eff_doubled, measurement_type_unknown,
                  interconnect_malformed, interconnect_doubled, offset_malformed, sampler_malformed
    the folder    unreadable (a log is not a regular file, or too large), numbered_from_one, numbering_gap,
                  number_doubled, stamp_far (on another day than the nodes'), too_many (logs)
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from harness.base.files import open_regular
from harness.base.values import bounded_number, is_whole, mapping_or_empty, short_text
from harness.errors import LogError, printable
from harness.log import power_format
from harness.log.events import TOKEN
from harness.log.keys import POWER_READING
from harness.log.power_format import ClockOffset, Component, Kind, MeterSpec, NodePower, PowerDefect, Sample, Scope

MAX_SAMPLES = 1_000_000  # per file: a reading per second for eleven days, or ten meters at 10 Hz for three hours
MAX_METERS = 1_000
MAX_DEFECTS_PER_KIND = 100
WALL_MOVED_MS = 1000.0  # a batch of readings may be written about 0.3 s after they were taken
_TOKEN = TOKEN.encode()
_CONTROL = bytes(code for code in range(32) if code not in b"\t\n\r")
MAX_LINE_BYTES = 1 << 16  # a meter's declaration has about 400
FAR_MS = 86_400_000.0  # a day
_FILE = re.compile(r"(node|sw)_([0-9]{1,6})\.txt")


def read_folder(folder: Path) -> tuple[NodePower, ...]:
    """Return the logs in `power/result_<k>/`: nodes, then switches, each by number. Other files are ignored.

    Raises:
        LogError: the folder cannot be read or has no power log, or one of the logs cannot be read.
    """
    try:
        names = log_names(path.name for path in folder.iterdir())
    except OSError as error:
        raise LogError(f"{folder}: cannot be read: {error.strerror}") from None
    if not names:
        raise LogError(f"{folder}: has no power log; their names are node_<i>.txt and sw_<j>.txt")
    return judged_together([read(folder / name) for name in names])


def log_names(names: Iterable[str]) -> list[str]:
    """Return the names of power logs among `names`: nodes, then switches, each by number."""
    matches = [match for name in names if (match := _FILE.fullmatch(name))]
    return [match[0] for match in sorted(matches, key=lambda match: (match[1], int(match[2]), match[0]))]


def judged_together(logs: Sequence[NodePower]) -> tuple[NodePower, ...]:
    """Return the logs of one folder, in the order of `log_names`, with the defects that only show between them."""
    judged = list(logs)
    for kind in ("node", "sw"):
        members = [index for index, log in enumerate(judged) if log.node.startswith(f"{kind}_")]
        defect = _numbering([int(judged[index].node.partition("_")[2]) for index in members])
        if defect is not None:
            judged[members[0]] = with_defect(judged[members[0]], *defect)
    stamps = [log.wall_ms for log in judged if log.wall_ms is not None and not log.is_switch]
    for index, log in enumerate(judged if stamps else ()):
        days = 0.0 if log.wall_ms is None else (log.wall_ms - statistics.median_low(stamps)) / FAR_MS
        if abs(days) > 1:
            judged[index] = with_defect(log, "stamp_far", f"{log.node} is stamped {days:+.1f} days from the nodes")
    return tuple(judged)


def _numbering(numbers: list[int]) -> tuple[str, str] | None:
    if len(set(numbers)) < len(numbers):
        return "number_doubled", "two files have the same number"
    if numbers and numbers == list(range(1, len(numbers) + 1)):
        return "numbered_from_one", "they are numbered from 1; the first is 0"
    if numbers != list(range(len(numbers))):
        return "numbering_gap", f"their numbers are not 0 to {len(numbers) - 1}"
    return None


def with_defect(log: NodePower, kind: str, message: str) -> NodePower:
    """Return the log with one more defect, of the file as a whole."""
    counts = {**log.defect_counts, kind: log.defect_counts.get(kind, 0) + 1}
    return replace(log, defects=(*log.defects, PowerDefect(kind, 0, message)), defect_counts=counts)


def read(path: Path) -> NodePower:
    """Return the power log at `path`, as far as it can be read.

    Raises:
        LogError: the file is missing, is not a regular file, or cannot be read.
    """
    with open_regular(path, buffering=1 << 20) as stream:
        reader = PowerCollector(path)
        try:
            for lineno, line, has_end in _lines(stream, reader.defect):
                reader.take(lineno, line, has_end)
        except OSError as error:
            raise LogError(f"{path}: cannot be read: {error.strerror}") from None
    return reader.result()


def _lines(stream: BinaryIO, defect: Callable[[str, int, str], None]) -> Iterator[tuple[int, bytes, bool]]:
    """Yield (number, line, whether it has an end); a line that is too long is skipped without being kept in memory."""
    lineno = 0
    while line := stream.readline(MAX_LINE_BYTES):
        lineno += 1
        if len(line) < MAX_LINE_BYTES or line.endswith(b"\n"):
            yield lineno, line.rstrip(b"\r\n"), line.endswith(b"\n")
            continue
        defect("overlong", lineno, f"a line of more than {MAX_LINE_BYTES:,} bytes")
        while line and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE_BYTES)


# One line.

_TYPES = {
    "power_measurement_start": "INTERVAL_START",
    "power_measurement_stop": "INTERVAL_END",
}
_POINT = "POINT_IN_TIME"
_EMPTY = ("metadata_empty", "metadata is empty; it must be an object")


class Refused(ValueError):  # noqa: N818  (names the event, as Interrupted does)
    """The line is not a record. kind: the defect's."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Record:
    """One line. oddities: (kind, message) of each thing that is wrong but can be understood."""

    key: str
    time_ms: Any
    value: Any
    metadata: dict[str, Any]
    oddities: tuple[tuple[str, str], ...]


def record_of(text: bytes) -> Record:
    """Return the record in the text that follows the token.

    NaN and the infinities become floats; the code that uses the value refuses them.

    Raises:
        Refused: the text is not UTF-8 or not a JSON object with a key, or an object has a name twice.
    """
    try:
        fields = _DECODER.decode(text.decode("utf-8"))
    except UnicodeDecodeError:
        raise Refused("not_utf8", "the line is not UTF-8") from None
    except RecursionError:
        raise Refused("malformed", "nested too deeply") from None
    except json.JSONDecodeError as error:
        raise Refused("malformed", f"not JSON: {error.msg} at column {error.colno}") from None
    except Refused:
        raise
    except ValueError:  # an integer of more digits than Python converts
        raise Refused("malformed", "a number has too many digits") from None
    if not isinstance(fields, dict):
        raise Refused("malformed", "not a JSON object")
    key = fields.get("key")
    if not isinstance(key, str) or not key:
        raise Refused("malformed", "key is missing or not a text")
    oddities = []
    expected = _TYPES.get(key, _POINT)
    if fields.get("event_type") != expected:
        shown = printable(fields.get("event_type"), 40)
        oddities.append(("event_type_wrong", f"event_type is {shown!r}; of {printable(key, 40)} it is {expected}"))
    metadata = fields.get("metadata")
    if not isinstance(metadata, dict):
        if metadata is None or metadata == "":
            oddities.append(_EMPTY)
        else:
            shown = printable(metadata, 40)
            oddities.append(("metadata_malformed", f"metadata is {shown!r}; it must be an object"))
        metadata = {}
    value = fields.get("value")
    if value == "null":
        oddities.append(("null_as_text", 'value is the text "null"; a missing value is null'))
        value = None
    return Record(key, fields.get("time_ms"), value, metadata, tuple(oddities))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise Refused("key_doubled", "a name occurs twice in one JSON object")
    return record


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


# One pass.


class PowerCollector:
    """State of one pass over a file: `take` is given each line, `result` makes the log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        thing: Component = "switch" if path.stem.startswith("sw_") else "node"
        self.mlperf_spec = MeterSpec(f"mlperf:{thing}", thing, "unstated", "B", "power_w", 1.0, "MLPerf power log")
        self.defects: list[PowerDefect] = []
        self.counts: dict[str, int] = {}
        self.specs: dict[str, MeterSpec] = {}
        self.samples: dict[str, list[Sample]] = {}
        self.seqs: dict[str, int] = {}
        self.offsets: list[ClockOffset] = []
        self.head: dict[str, Any] | None = None
        self.start_ns: int | None = None
        self.stop_ns: int | None = None
        self.numbers: dict[str, float] = {}
        self.scope: Scope = "unstated"
        self.is_mono: bool | None = None  # None until a line decides
        self.wall_ms: float | None = None
        self.wall_offset_ms: float | None = None
        self.num_events = self.num_samples = 0
        self.takers: dict[str, Callable[[int, float | None, Any, dict[str, Any]], None]] = {
            POWER_READING: self._reading,
            power_format.ENERGY_COUNTER: self._counter,
            power_format.POWER_START: self._start,
            power_format.POWER_STOP: self._stop,
            power_format.POWER_FORMAT: self._format,
            power_format.METER: self._meter,
            power_format.CLOCK_OFFSET: self._offset,
            power_format.SAMPLER: self._sampler,
            power_format.CONVERSION_EFF: self._conversion_eff,
            power_format.INTERCONNECT: self._interconnect,
        }

    def defect(self, kind: str, lineno: int, message: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= MAX_DEFECTS_PER_KIND:
            self.defects.append(PowerDefect(kind, lineno, message))

    def take(self, lineno: int, line: bytes, has_end: bool) -> None:
        if line.translate(None, _CONTROL) != line:
            self.defect("control_character", lineno, "the line has a control character")
        begin = line.find(_TOKEN)
        if begin < 0:
            if not has_end and line and _TOKEN.startswith(line):
                self.defect("cut_off", lineno, "the last line is cut off")
            return  # another program's line
        try:
            record = record_of(line[begin + len(_TOKEN) :])
        except Refused as refused:
            kind, message = (refused.kind, str(refused)) if has_end else ("cut_off", "the last line is cut off")
            self.defect(kind, lineno, message)
            return
        self.num_events += 1
        for kind, message in record.oddities:
            self.defect(kind, lineno, message)
        taker = self.takers.get(record.key)
        if taker is None:
            self.defect("key_unknown", lineno, f"not a key of a power log: {printable(record.key, 60)!r}")
            return
        time_ms = bounded_number(record.time_ms)
        if self.wall_ms is None:
            self.wall_ms = time_ms
        taker(lineno, time_ms, record.value, record.metadata)

    def _time(self, lineno: int, time_ms: float | None, metadata: dict[str, Any]) -> int | None:
        """The line's monotonic nanoseconds; in a log without them, its wall time."""
        mono_ns = metadata.get("mono_ns")
        has_mono = "mono_ns" in metadata
        if self.is_mono is None:
            self.is_mono = has_mono
        if self.is_mono != has_mono:
            self.defect(
                "dialect_mixed",
                lineno,
                "a line with mono_ns in a log without it, or a line without it in a log that has it",
            )
            return None
        if not has_mono:
            if time_ms is None:
                self.defect("time_malformed", lineno, "time_ms is missing or not a number")
            return None if time_ms is None else round(time_ms * 1e3) * 1000
        if not is_whole(mono_ns) or not 0 <= mono_ns < 1 << 63:
            self.defect("time_malformed", lineno, f"mono_ns is {printable(mono_ns, 40)}; it must be nanoseconds")
            return None
        if time_ms is not None:
            offset_ms = time_ms - mono_ns / 1e6
            before_ms, self.wall_offset_ms = self.wall_offset_ms, offset_ms
            if before_ms is not None and abs(offset_ms - before_ms) > WALL_MOVED_MS:
                moved_s = (offset_ms - before_ms) / 1e3
                self.defect("wall_moved", lineno, f"the wall clock moved by {moved_s:+.3f} s against the monotonic one")
        return mono_ns

    def _reading(self, lineno: int, time_ms: float | None, value: Any, metadata: dict[str, Any]) -> None:
        if "meter" in metadata:
            self._sample(lineno, self._time(lineno, time_ms, metadata), value, metadata, "power_w")
            return
        spec = self.specs.setdefault(self.mlperf_spec.id, self.mlperf_spec)
        self._keep(lineno, self._time(lineno, time_ms, metadata), value, spec, may_fail=False)

    def _counter(self, lineno: int, time_ms: float | None, value: Any, metadata: dict[str, Any]) -> None:
        self._sample(lineno, self._time(lineno, time_ms, metadata), value, metadata, "energy_j")

    def _sample(self, lineno: int, at_ns: int | None, value: Any, metadata: dict[str, Any], kind: Kind) -> None:
        meter = metadata.get("meter")
        spec = self.specs.get(meter) if isinstance(meter, str) else None
        if spec is None:
            self.defect("meter_undeclared", lineno, f"no tta_meter before it declares {printable(meter, 60)!r}")
            return
        if spec.kind != kind:
            self.defect("kind_wrong", lineno, f"{printable(spec.id, 60)!r} reads {spec.kind}, this line is {kind}")
            return
        seq, expected = metadata.get("seq"), self.seqs.get(spec.id, -1) + 1
        if seq != expected or isinstance(seq, bool):
            self.defect("sequence", lineno, f"seq is {printable(seq, 40)}; the meter's next is {expected}")
        self.seqs[spec.id] = seq if is_whole(seq) else expected
        self._keep(lineno, at_ns, value, spec, may_fail=True)

    def _keep(self, lineno: int, at_ns: int | None, value: Any, spec: MeterSpec, *, may_fail: bool) -> None:
        number = bounded_number(value)
        if isinstance(value, float) and not math.isfinite(value):
            self.defect("not_a_number", lineno, f"the reading is {printable(value, 40)}")
        elif number is None and not (value is None and may_fail):
            self.defect("value_malformed", lineno, f"the reading is {printable(value, 40)!r}; it must be a number")
        elif number is not None and number < 0:
            self.defect("value_negative", lineno, f"the reading is {number:g}; it must not be negative")
            number = None
        if at_ns is None:
            return
        if self.num_samples >= MAX_SAMPLES:
            self.defect("too_many", lineno, f"more than {MAX_SAMPLES:,} readings")
            return
        series = self.samples.setdefault(spec.id, [])
        step_ms = (at_ns - series[-1].mono_ns) / 1e6 if series else 1.0
        if step_ms == 0:
            self.defect("time_doubled", lineno, "its time is that of the meter's previous reading")
        elif step_ms < 0:
            self.defect("time_backwards", lineno, f"its time is {-step_ms:.0f} ms before the meter's previous reading")
        series.append(Sample(at_ns, number))
        self.num_samples += 1

    def _start(self, lineno: int, time_ms: float | None, value: Any, metadata: dict[str, Any]) -> None:
        at_ns = self._time(lineno, time_ms, metadata)
        if self.start_ns is not None:
            self.defect("start_doubled", lineno, "a second power_measurement_start")
        elif at_ns is not None:
            self.start_ns = at_ns

    def _stop(self, lineno: int, time_ms: float | None, value: Any, metadata: dict[str, Any]) -> None:
        at_ns = self._time(lineno, time_ms, metadata)
        if self.stop_ns is not None:
            self.defect("stop_doubled", lineno, "a second power_measurement_stop")
        elif at_ns is not None:
            self.stop_ns = at_ns
            if self.start_ns is not None and at_ns == self.start_ns:
                self.defect("stop_equals_start", lineno, "power_measurement_stop has the time of the start")
            elif self.start_ns is not None and at_ns < self.start_ns:
                self.defect("stop_before_start", lineno, "power_measurement_stop is before the start")

    def _format(self, lineno: int, time_ms: float | None, value: Any, metadata: dict[str, Any]) -> None:
        if self.head is not None:
            self.defect("format_doubled", lineno, f"a second {power_format.POWER_FORMAT}")
            return
        self.head = mapping_or_empty(value)
        if self.head.get("version") != power_format.POWER_FORMAT_VERSION or short_text(self.head.get("host")) is None:
            self.defect(
                "format_malformed", lineno, f"version must be {power_format.POWER_FORMAT_VERSION} and host a text"
            )
        if self.head.get("node") != self.path.stem:
            shown = printable(self.head.get("node"), 40)
            self.defect("node_differs", lineno, f"the log names node {shown!r}; its file is {self.path.stem!r}")

    def _meter(self, lineno: int, time_ms: float | None, value: Any, metadata: dict[str, Any]) -> None:
        try:
            spec = power_format.spec_of(value)
        except ValueError as error:
            self.defect("meter_malformed", lineno, str(error))
            return
        if spec.id in self.specs:
            self.defect("meter_doubled", lineno, f"{printable(spec.id, 60)!r} is declared already")
        elif len(self.specs) >= MAX_METERS:
            self.defect("too_many", lineno, f"more than {MAX_METERS:,} meters")
        else:
            self.specs[spec.id] = spec

    def _offset(self, lineno: int, time_ms: float | None, value: Any, metadata: dict[str, Any]) -> None:
        at_ns = self._time(lineno, time_ms, metadata)
        fields = mapping_or_empty(value)
        offset_ns, round_trip_ns = fields.get("offset_ns"), fields.get("round_trip_ns")
        whole = [item for item in (offset_ns, round_trip_ns) if is_whole(item)]
        if len(whole) < 2 or abs(whole[0]) >= 1 << 63 or not 0 <= whole[1] < 1 << 63:
            self.defect("offset_malformed", lineno, "offset_ns and round_trip_ns must be whole nanoseconds")
        elif at_ns is not None and len(self.offsets) < MAX_SAMPLES:
            self.offsets.append(ClockOffset(at_ns, whole[0], whole[1]))

    def _sampler(self, lineno: int, time_ms: float | None, value: Any, metadata: dict[str, Any]) -> None:
        cpu_s = bounded_number(value.get("cpu_s")) if isinstance(value, dict) else None
        if cpu_s is None or cpu_s < 0:
            self.defect("sampler_malformed", lineno, "cpu_s must be seconds from 0 up")
        else:
            self.numbers["sampler"] = cpu_s  # each line has the total since the start

    def _conversion_eff(self, lineno: int, time_ms: float | None, value: Any, metadata: dict[str, Any]) -> None:
        factor, side = bounded_number(value), metadata.get("measurement_type")
        if side not in ("AC", "DC"):
            self.defect(
                "measurement_type_unknown", lineno, f"measurement_type is {printable(side, 40)!r}, not AC or DC"
            )
        elif self.scope == "unstated":
            self.scope = "ac" if side == "AC" else "dc"
        if factor is None or not 0 < factor <= 1:
            self.defect(
                "conversion_eff_malformed", lineno, f"it is {printable(value, 40)}; it must be above 0 and at most 1"
            )
        elif "conversion_eff" in self.numbers:
            self.defect("conversion_eff_doubled", lineno, "a second conversion_eff")
        else:
            self.numbers["conversion_eff"] = factor

    def _interconnect(self, lineno: int, time_ms: float | None, value: Any, metadata: dict[str, Any]) -> None:
        power_w = bounded_number(value)
        if power_w is None or power_w < 0:
            self.defect("interconnect_malformed", lineno, f"it is {printable(value, 40)}; it must be watts from 0 up")
        elif "interconnect" in self.numbers:
            self.defect("interconnect_doubled", lineno, "a second interconnect_power_est")
        else:
            self.numbers["interconnect"] = power_w

    def result(self) -> NodePower:
        self._judge_whole()
        head = self.head or {}
        specs = {
            name: replace(spec, scope=self.scope, period_s=_period_s(self.samples.get(name, ())))
            if name.startswith("mlperf:")
            else spec
            for name, spec in self.specs.items()
        }
        return NodePower(
            node=self.path.stem,
            path=self.path,
            host=short_text(head.get("host")),
            specs=specs,
            samples={name: tuple(self.samples.get(name, ())) for name in specs},
            offsets=tuple(self.offsets),
            start_ns=self.start_ns,
            stop_ns=self.stop_ns,
            conversion_eff=self.numbers.get("conversion_eff"),
            interconnect_w=self.numbers.get("interconnect"),
            defects=tuple(self.defects),
            dialect="tta" if self._is_tta else "mlperf",
            machine=short_text(head.get("machine")),
            run_id=short_text(head.get("run_id")),
            wall_ms=self.wall_ms,
            sampler_cpu_s=self.numbers.get("sampler"),
            defect_counts=dict(self.counts),
        )

    @property
    def _is_tta(self) -> bool:
        return bool(self.is_mono) or self.head is not None

    def _judge_whole(self) -> None:
        if self.num_events == 0:
            self.defect("empty", 0, f"no line has {TOKEN.strip()!r}")
            return
        if self._is_tta and self.head is None:
            self.defect("format_missing", 0, f"it has no {power_format.POWER_FORMAT}")
        if self.samples or self.specs or "interconnect" not in self.numbers:
            for name, at_ns in (("start", self.start_ns), ("stop", self.stop_ns)):
                if at_ns is None:
                    self.defect(f"{name}_missing", 0, f"it has no power_measurement_{name}")


def _period_s(samples: Sequence[Sample]) -> float:
    """The median step, since MLPerf's logs do not state the planned one; without steps one second, as its rules ask."""
    steps_ns = [later.mono_ns - earlier.mono_ns for earlier, later in pairwise(samples)]
    return statistics.median(steps_ns) / 1e9 if steps_ns and statistics.median(steps_ns) > 0 else 1.0
