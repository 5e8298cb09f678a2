"""The lines of our power log, one file a node: `power/result_<k>/node_<i>.txt`. Pure: what is written where is the
caller's business; `harness.log.power_log` reads them. Every line comes with its line end.

MLPerf's line format and MLPerf's keys where it has a word: `power_measurement_start`, `power_measurement_stop`,
`power_reading`. Ours where it has none: who wrote the log, what is metered, counters, clocks. Every line but the
first two kinds carries the node's monotonic time in metadata.mono_ns; time_ms is the wall clock and decides nothing.

    tta_power_format    {"version": 1, "node": "node_0", "host": "n17", "machine": "<digest>", "run_id": "<hex>"}
    tta_meter           the fields of a MeterSpec
    tta_clock_offset    {"offset_ns": n, "round_trip_ns": n}: this node's monotonic clock less the referee's
    power_reading       watts, or null for a read that failed; metadata {"meter", "seq", "mono_ns"}
    tta_energy_counter  joules, or null for a read that failed; the same metadata
    tta_sampler         {"cpu_s": x}: processor seconds the sampler itself has taken
"""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

from harness.errors import printable, unknown_name
from harness.log.events import POWER_READING, Event, EventType, format_line
from harness.log.power_format import ClockOffset, Component, Kind, MeterClass, MeterSpec, Sample, Scope

POWER_FORMAT_VERSION = 1

# MLPerf's words.
POWER_START, POWER_STOP = "power_measurement_start", "power_measurement_stop"
CONVERSION_EFF = "conversion_eff"
INTERCONNECT = "interconnect_power_est"

# Ours.
POWER_FORMAT = "tta_power_format"
METER = "tta_meter"
ENERGY_COUNTER = "tta_energy_counter"
CLOCK_OFFSET = "tta_clock_offset"
SAMPLER = "tta_sampler"


def opening_line(time_ms: int, *, node: str, host: str, machine: str | None = None, run_id: str | None = None) -> str:
    """The first line of a node's log. `node`: "node_0", the stem of the file's name."""
    value = {"version": POWER_FORMAT_VERSION, "node": node, "host": host, "machine": machine, "run_id": run_id}
    return _line(time_ms, POWER_FORMAT, value)


def meter_line(time_ms: int, spec: MeterSpec) -> str:
    """Declares a meter; it stands before the meter's first reading."""
    return _line(time_ms, METER, dataclasses.asdict(spec))


def start_line(time_ms: int, mono_ns: int) -> str:
    return _line(time_ms, POWER_START, None, "INTERVAL_START", mono_ns=mono_ns)


def stop_line(time_ms: int, mono_ns: int) -> str:
    return _line(time_ms, POWER_STOP, None, "INTERVAL_END", mono_ns=mono_ns)


def reading_line(time_ms: int, spec: MeterSpec, sample: Sample, seq: int) -> str:
    """One reading of a declared meter; `seq` counts the meter's readings from 0, failed ones too.

    Raises:
        ValueError: the value is NaN or infinite; a sensor that says so has failed, and its value is None.
    """
    key = POWER_READING if spec.kind == "power_w" else ENERGY_COUNTER
    return _line(time_ms, key, sample.value, meter=spec.id, seq=seq, mono_ns=sample.mono_ns)


def clock_offset_line(time_ms: int, offset: ClockOffset) -> str:
    value = {"offset_ns": offset.offset_ns, "round_trip_ns": offset.round_trip_ns}
    return _line(time_ms, CLOCK_OFFSET, value, mono_ns=offset.mono_ns)


def sampler_line(time_ms: int, mono_ns: int, cpu_s: float) -> str:
    """`cpu_s`: processor seconds the sampler took from its start until now."""
    return _line(time_ms, SAMPLER, {"cpu_s": cpu_s}, mono_ns=mono_ns)


MAX_TEXT = 500  # characters of an id or a source
MAX_NUMBER = 1e15
_CHOICES = {"component": Component, "scope": Scope, "meter_class": MeterClass, "kind": Kind}
_TEXTS = ("id", "source")
_ABOVE_ZERO = ("period_s",)
_ABOVE_ZERO_OR_NONE = ("accuracy_pct", "wrap_at_j", "max_power_w")
_FIELDS = tuple(field.name for field in dataclasses.fields(MeterSpec))
_REQUIRED = (*_CHOICES, *_TEXTS, *_ABOVE_ZERO)


def number_of(value: object) -> float | None:
    """A finite number of no more than 1e15 either way; None if it is none. A truth value is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= MAX_NUMBER else None  # not a number is not less either


def text_of(value: object) -> str | None:
    """A text that can be printed on a line, of 1 to 500 characters; None if it is none."""
    return value if isinstance(value, str) and 0 < len(value) <= MAX_TEXT and value.isprintable() else None


def spec_of(value: object) -> MeterSpec:
    """The meter that the value of a `tta_meter` line declares.

    Raises:
        ValueError: a field is missing, unknown, or not of its kind.
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
        if text_of(value.get(name)) is None and (name in _TEXTS or value.get(name) is not None):
            raise ValueError(f"{name} is no text of 1 to {MAX_TEXT} printable characters")
    for name in (*_ABOVE_ZERO, *_ABOVE_ZERO_OR_NONE):
        number = number_of(value.get(name))
        is_absent = value.get(name) is None and name in _ABOVE_ZERO_OR_NONE
        if not is_absent and (number is None or number <= 0):
            raise ValueError(f"{name} is {printable(value.get(name), 60)}; it must be a number above zero")
    averaging_s = number_of(value.get("averaging_s", 0.0))
    if averaging_s is None or averaging_s < 0:
        raise ValueError(f"averaging_s is {printable(value['averaging_s'], 60)}; it must be a number from 0 up")
    return MeterSpec(**value)


def _line(time_ms: int, key: str, value: object, event_type: EventType = "POINT_IN_TIME", **metadata: Any) -> str:
    return format_line(Event(time_ms, event_type, key, value, metadata, 0)) + "\n"
