"""A node's power log: what its lines mean, and how they are written. Pure: `harness.log.power_log` reads the files.

One file per node, `power/result_<k>/node_<i>.txt`, in MLPerf's line format and with MLPerf's keys where it has one.
Every line but those of the first two keys has the node's monotonic time in metadata.mono_ns; time_ms is the wall clock
and decides nothing.

    tta_power_format         {"version": 1, "node": "node_0", "host": "n17", "machine": "<digest>", "run_id": "<hex>"}
    tta_meter                the fields of a MeterSpec
    tta_clock_offset         {"offset_ns": n, "round_trip_ns": n}: this node's monotonic clock minus the referee's
    power_measurement_start  start of the measurement
    power_reading            watts, or null for a read that failed; metadata {"meter", "seq", "mono_ns"}
    tta_energy_counter       joules, or null for a read that failed; the same metadata
    tta_sampler              {"cpu_s": x}: processor seconds that the sampler itself has used
    power_measurement_stop   end of the measurement
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from harness.base.values import MAX_TEXT, bounded_number, short_text
from harness.errors import printable, unknown_name
from harness.log.events import Event, EventType, format_line
from harness.log.keys import POWER_READING

POWER_FORMAT_VERSION = 1
# MLPerf's keys.
POWER_START, POWER_STOP = "power_measurement_start", "power_measurement_stop"
CONVERSION_EFF = "conversion_eff"
INTERCONNECT = "interconnect_power_est"
# Keys of `tta`.
POWER_FORMAT = "tta_power_format"
METER = "tta_meter"
ENERGY_COUNTER = "tta_energy_counter"
CLOCK_OFFSET = "tta_clock_offset"
SAMPLER = "tta_sampler"

# node: the whole node; two such meters are two views of the same thing. pdu: an outlet; a node's outlets add up.
# psys, core and uncore overlap with the packages, and cooling is not part of the machine: logged, but never summed.
Component = Literal["node", "pdu", "gpu", "cpu_package", "dram", "switch", "cooling", "psys", "core", "uncore"]
# unstated: an MLPerf log without conversion_eff does not say on which side of the power supply it was read.
Scope = Literal["ac", "dc", "module", "board", "package", "model", "unstated"]
# A: external calibrated meter. B: the node's own sensor (BMC, power supply, PDU outlet). C: a component's energy
# counter. D: a component's sampled power. E: modelled. N: none.
MeterClass = Literal["A", "B", "C", "D", "E", "N"]
Kind = Literal["power_w", "energy_j"]
Dialect = Literal["tta", "mlperf"]


@dataclass(frozen=True, slots=True)
class MeterSpec:
    """One meter: what it measures, and how.

    id: unique on its node, for example "powercap:intel-rapl:0" or "nvml:GPU-5f1c…:energy".
    kind: "power_w", watts at (or averaged up to) an instant, or "energy_j", a counter of joules that never decreases
        except for wraps and resets.
    device: the hardware's own identity, by which double counting is found; None if it has none. Unique within its
        machine ("package-0"); worldwide for nodes, outlets, switches, and ids that begin with "GPU-" or "MIG-".
    accuracy_pct: half width of the manufacturer's or calibration's 95 % interval, in per cent of the reading; None if
        undeclared.
    period_s: planned time between two readings.
    averaging_s: the time over which the meter itself averages, or of a counter, how old its value may be; 0 for an
        instantaneous value.
    resolution_j: the smallest step of a counter; 0 if it is negligible.
    wrap_at_j: where a counter starts again from zero; None if it never does, or if that is not known.
    max_power_w: power that the device cannot exceed, to tell wraps from resets; None: a generous bound is used.
    source: what is read, for people: a path, a command, a library with its version.
    """

    id: str
    component: Component
    scope: Scope
    meter_class: MeterClass
    kind: Kind
    period_s: float
    source: str
    device: str | None = None
    accuracy_pct: float | None = None
    averaging_s: float = 0.0
    wrap_at_j: float | None = None
    max_power_w: float | None = None
    resolution_j: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading. mono_ns: its node's monotonic time. value: watts or joules, by the meter's kind; None: it failed."""

    mono_ns: int
    value: float | None


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """A node's clock minus the referee's, measured by a round trip at `mono_ns` of the node.

    round_trip_ns: how long request and answer took together; half of it bounds the error.
    """

    mono_ns: int
    offset_ns: int
    round_trip_ns: int


@dataclass(frozen=True, slots=True)
class PowerDefect:
    """A fault in a line of a power log, or in the whole file (line 0). kind: one of `harness.log.power_log`'s names."""

    kind: str
    lineno: int
    message: str


@dataclass(frozen=True, slots=True)
class NodePower:
    """The power log of one node (or switch) of one run, as far as it can be read.

    node: the file's stem, "node_0" or "sw_1". host, run_id: as logged; None in MLPerf's logs. machine: a digest of the
        machine's id, by which a node that was metered twice is found; None where none is logged.
    dialect: "mlperf" where no line has monotonic time; a sample's mono_ns is then its wall time in nanoseconds.
    samples: by meter id, in the order of the file. start_ns, stop_ns: `power_measurement_start` and `_stop`.
    conversion_eff: the factor MLPerf's logs state for a DC reading; None where none is stated.
    interconnect_w: MLPerf's `interconnect_power_est`; None where there is none.
    wall_ms: wall time of the first line that has one, in milliseconds; None without one.
    sampler_cpu_s: processor seconds that the sampler itself used; None where it is not logged.
    defects: at most 100 of a kind; defect_counts: how many there are of each.
    """

    node: str
    path: Path
    host: str | None
    specs: dict[str, MeterSpec]
    samples: dict[str, tuple[Sample, ...]]
    offsets: tuple[ClockOffset, ...] = ()
    start_ns: int | None = None
    stop_ns: int | None = None
    conversion_eff: float | None = None
    interconnect_w: float | None = None
    defects: tuple[PowerDefect, ...] = field(default=())
    dialect: Dialect = "tta"
    machine: str | None = None
    run_id: str | None = None
    wall_ms: float | None = None
    sampler_cpu_s: float | None = None
    defect_counts: dict[str, int] = field(default_factory=dict)

    @property
    def is_switch(self) -> bool:
        return self.node.startswith("sw_")

    def defects_of(self, kind: str) -> tuple[PowerDefect, ...]:
        """The defects of one kind, in the order of the file."""
        return tuple(defect for defect in self.defects if defect.kind == kind)


def opening_line(time_ms: int, *, node: str, host: str, machine: str | None = None, run_id: str | None = None) -> str:
    """Return the first line of a node's log. node: "node_0", the stem of the file's name."""
    value = {"version": POWER_FORMAT_VERSION, "node": node, "host": host, "machine": machine, "run_id": run_id}
    return _line(time_ms, POWER_FORMAT, value)


def meter_line(time_ms: int, spec: MeterSpec) -> str:
    """Return the line that declares a meter; it must come before the meter's first reading."""
    return _line(time_ms, METER, dataclasses.asdict(spec))


def start_line(time_ms: int, mono_ns: int) -> str:
    return _line(time_ms, POWER_START, None, "INTERVAL_START", mono_ns=mono_ns)


def stop_line(time_ms: int, mono_ns: int) -> str:
    return _line(time_ms, POWER_STOP, None, "INTERVAL_END", mono_ns=mono_ns)


def reading_line(time_ms: int, spec: MeterSpec, sample: Sample, seq: int) -> str:
    """Return the line of one reading. seq: number of the reading of this meter, from 0, failed reads included.

    Raises:
        ValueError: the value is NaN or infinite; for a sensor that reports that, the read has failed: log None.
    """
    key = POWER_READING if spec.kind == "power_w" else ENERGY_COUNTER
    return _line(time_ms, key, sample.value, meter=spec.id, seq=seq, mono_ns=sample.mono_ns)


def clock_offset_line(time_ms: int, offset: ClockOffset) -> str:
    value = {"offset_ns": offset.offset_ns, "round_trip_ns": offset.round_trip_ns}
    return _line(time_ms, CLOCK_OFFSET, value, mono_ns=offset.mono_ns)


def sampler_line(time_ms: int, mono_ns: int, cpu_s: float) -> str:
    """Return the line of the sampler's own use. cpu_s: its processor seconds from its start until now."""
    return _line(time_ms, SAMPLER, {"cpu_s": cpu_s}, mono_ns=mono_ns)


_CHOICES = {"component": Component, "scope": Scope, "meter_class": MeterClass, "kind": Kind}
_TEXTS = ("id", "source")
_ABOVE_ZERO = ("period_s",)
_ABOVE_ZERO_OR_NONE = ("accuracy_pct", "wrap_at_j", "max_power_w")
_FROM_ZERO = ("averaging_s", "resolution_j")
_FIELDS = tuple(field.name for field in dataclasses.fields(MeterSpec))
_REQUIRED = (*_CHOICES, *_TEXTS, *_ABOVE_ZERO)


def spec_of(value: object) -> MeterSpec:
    """Return the meter that the value of a `tta_meter` line declares.

    Raises:
        ValueError: a field is missing, unknown, or has a value that is not permitted.
    """
    if not isinstance(value, dict):
        raise ValueError("a meter must be an object")
    for name in value:
        if name not in _FIELDS:
            raise ValueError(unknown_name("field of a meter", printable(name, 60), _FIELDS))
    for name in _REQUIRED:
        if name not in value:
            raise ValueError(f"the meter has no {name!r}")
    for name, choices in _CHOICES.items():
        if value[name] not in get_args(choices):
            raise ValueError(
                f"{name} is {printable(value[name], 60)!r}; it must be one of {', '.join(get_args(choices))}"
            )
    for name in (*_TEXTS, "device"):
        if short_text(value.get(name)) is None and (name in _TEXTS or value.get(name) is not None):
            raise ValueError(f"{name} is not a text of 1 to {MAX_TEXT} printable characters")
    for name in (*_ABOVE_ZERO, *_ABOVE_ZERO_OR_NONE):
        number = bounded_number(value.get(name))
        is_absent = value.get(name) is None and name in _ABOVE_ZERO_OR_NONE
        if not is_absent and (number is None or number <= 0):
            raise ValueError(f"{name} is {printable(value.get(name), 60)}; it must be a number above zero")
    for name in _FROM_ZERO:
        number = bounded_number(value.get(name, 0.0))
        if number is None or number < 0:
            raise ValueError(f"{name} is {printable(value[name], 60)}; it must be a number from 0 up")
    return MeterSpec(**value)


def _line(time_ms: int, key: str, value: object, event_type: EventType = "POINT_IN_TIME", **metadata: Any) -> str:
    return format_line(Event(time_ms, event_type, key, value, metadata, 0)) + "\n"
