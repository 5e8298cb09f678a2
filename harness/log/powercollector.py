"""State of one pass over a power log: lines in, `NodePower` out. `harness.log.power_log` tells the kinds of defects."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.errors import printable
from harness.log import powerlines as key
from harness.log.events import POWER_READING, TOKEN
from harness.log.power_format import ClockOffset, Component, Kind, MeterSpec, NodePower, PowerDefect, Sample, Scope
from harness.log.powerlines import number_of, text_of
from harness.log.powerrecord import Refused, record_of

MAX_SAMPLES = 1_000_000  # of one file: a reading a second for eleven days, or ten meters at 10 Hz for three hours
MAX_METERS = 1_000
MAX_DEFECTS_PER_KIND = 100
WALL_MOVED_MS = 1000.0  # a batch of readings may be written up to some 0.3 s after they were taken
_TOKEN = TOKEN.encode()
_CONTROL = bytes(code for code in range(32) if code not in b"\t\n\r")


class PowerCollector:
    """State of one pass over a file. `take` takes a line, `result` is the log."""

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
        self.is_mono: bool | None = None  # None until a line has told
        self.wall_ms: float | None = None
        self.wall_offset_ms: float | None = None
        self.num_events = self.num_samples = 0
        self.takers: dict[str, Callable[[int, float | None, Any, dict[str, Any]], None]] = {
            POWER_READING: self._reading,
            key.ENERGY_COUNTER: self._counter,
            key.POWER_START: self._start,
            key.POWER_STOP: self._stop,
            key.POWER_FORMAT: self._format,
            key.METER: self._meter,
            key.CLOCK_OFFSET: self._offset,
            key.SAMPLER: self._sampler,
            key.CONVERSION_EFF: self._conversion_eff,
            key.INTERCONNECT: self._interconnect,
        }

    def defect(self, kind: str, lineno: int, message: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= MAX_DEFECTS_PER_KIND:
            self.defects.append(PowerDefect(kind, lineno, message))

    def take(self, lineno: int, line: bytes, has_end: bool) -> None:
        if line.translate(None, _CONTROL) != line:
            self.defect("control_character", lineno, "a control character stands in the line")
        begin = line.find(_TOKEN)
        if begin < 0:
            if not has_end and line and _TOKEN.startswith(line):
                self.defect("cut_off", lineno, "the last line is cut off")
            return  # another program's
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
            self.defect("key_unknown", lineno, f"no key of a power log: {printable(record.key, 60)!r}")
            return
        time_ms = number_of(record.time_ms)
        if self.wall_ms is None:
            self.wall_ms = time_ms
        taker(lineno, time_ms, record.value, record.metadata)

    def _time(self, lineno: int, time_ms: float | None, metadata: dict[str, Any]) -> int | None:
        """Monotonic nanoseconds; in a log without them, wall time."""
        mono_ns = metadata.get("mono_ns")
        has_mono = "mono_ns" in metadata
        if self.is_mono is None:
            self.is_mono = has_mono
        if self.is_mono != has_mono:
            self.defect("dialect_mixed", lineno, "a line with mono_ns in a log without, or one without in a log with")
            return None
        if not has_mono:
            if time_ms is None:
                self.defect("time_malformed", lineno, "time_ms is missing or no number")
            return None if time_ms is None else round(time_ms * 1e3) * 1000
        if not isinstance(mono_ns, int) or isinstance(mono_ns, bool) or not 0 <= mono_ns < 1 << 63:
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
        self.seqs[spec.id] = seq if isinstance(seq, int) and not isinstance(seq, bool) else expected
        self._keep(lineno, at_ns, value, spec, may_fail=True)

    def _keep(self, lineno: int, at_ns: int | None, value: Any, spec: MeterSpec, *, may_fail: bool) -> None:
        number = number_of(value)
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
            self.defect("time_doubled", lineno, "its time is that of the meter's reading before")
        elif step_ms < 0:
            self.defect("time_backwards", lineno, f"its time is {-step_ms:.0f} ms before the meter's reading before")
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
                self.defect("stop_equals_start", lineno, "power_measurement_stop bears the time of the start")
            elif self.start_ns is not None and at_ns < self.start_ns:
                self.defect("stop_before_start", lineno, "power_measurement_stop lies before the start")

    def _format(self, lineno: int, time_ms: float | None, value: Any, metadata: dict[str, Any]) -> None:
        if self.head is not None:
            self.defect("format_doubled", lineno, f"a second {key.POWER_FORMAT}")
            return
        self.head = value if isinstance(value, dict) else {}
        if self.head.get("version") != key.POWER_FORMAT_VERSION or text_of(self.head.get("host")) is None:
            self.defect("format_malformed", lineno, f"version must be {key.POWER_FORMAT_VERSION}, and host a text")
        if self.head.get("node") != self.path.stem:
            shown = printable(self.head.get("node"), 40)
            self.defect("node_differs", lineno, f"the log is of {shown!r}; its file is called {self.path.stem!r}")

    def _meter(self, lineno: int, time_ms: float | None, value: Any, metadata: dict[str, Any]) -> None:
        try:
            spec = key.spec_of(value)
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
        fields = value if isinstance(value, dict) else {}
        offset_ns, round_trip_ns = fields.get("offset_ns"), fields.get("round_trip_ns")
        whole = [item for item in (offset_ns, round_trip_ns) if isinstance(item, int) and not isinstance(item, bool)]
        if len(whole) < 2 or abs(whole[0]) >= 1 << 63 or not 0 <= whole[1] < 1 << 63:
            self.defect("offset_malformed", lineno, "offset_ns and round_trip_ns must be whole nanoseconds")
        elif at_ns is not None and len(self.offsets) < MAX_SAMPLES:
            self.offsets.append(ClockOffset(at_ns, whole[0], whole[1]))

    def _sampler(self, lineno: int, time_ms: float | None, value: Any, metadata: dict[str, Any]) -> None:
        cpu_s = number_of(value.get("cpu_s")) if isinstance(value, dict) else None
        if cpu_s is None or cpu_s < 0:
            self.defect("sampler_malformed", lineno, "cpu_s must be seconds from 0 up")
        else:
            self.numbers["sampler"] = cpu_s  # each line tells the whole time since the start

    def _conversion_eff(self, lineno: int, time_ms: float | None, value: Any, metadata: dict[str, Any]) -> None:
        factor, side = number_of(value), metadata.get("measurement_type")
        if side not in ("AC", "DC"):
            self.defect(
                "measurement_type_unknown", lineno, f"measurement_type is {printable(side, 40)!r}, not AC or DC"
            )
        elif self.scope == "unstated":
            self.scope = "ac" if side == "AC" else "dc"
        if factor is None or not 0 < factor <= 1:
            self.defect("conversion_eff_malformed", lineno, f"it is {printable(value, 40)}; it must be over 0, up to 1")
        elif "conversion_eff" in self.numbers:
            self.defect("conversion_eff_doubled", lineno, "a second conversion_eff")
        else:
            self.numbers["conversion_eff"] = factor

    def _interconnect(self, lineno: int, time_ms: float | None, value: Any, metadata: dict[str, Any]) -> None:
        power_w = number_of(value)
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
            host=text_of(head.get("host")),
            specs=specs,
            samples={name: tuple(self.samples.get(name, ())) for name in specs},
            offsets=tuple(self.offsets),
            start_ns=self.start_ns,
            stop_ns=self.stop_ns,
            conversion_eff=self.numbers.get("conversion_eff"),
            interconnect_w=self.numbers.get("interconnect"),
            defects=tuple(self.defects),
            dialect="tta" if self._is_ours else "mlperf",
            machine=text_of(head.get("machine")),
            run_id=text_of(head.get("run_id")),
            wall_ms=self.wall_ms,
            sampler_cpu_s=self.numbers.get("sampler"),
            defect_counts=dict(self.counts),
        )

    @property
    def _is_ours(self) -> bool:
        return bool(self.is_mono) or self.head is not None

    def _judge_whole(self) -> None:
        if self.num_events == 0:
            self.defect("empty", 0, f"no line of it has {TOKEN.strip()!r}")
            return
        if self._is_ours and self.head is None:
            self.defect("format_missing", 0, f"it has no {key.POWER_FORMAT}")
        if self.samples or self.specs or "interconnect" not in self.numbers:
            for name, at_ns in (("start", self.start_ns), ("stop", self.stop_ns)):
                if at_ns is None:
                    self.defect(f"{name}_missing", 0, f"it has no power_measurement_{name}")


def _period_s(samples: Sequence[Sample]) -> float:
    """The median step: MLPerf's logs do not say what was planned. One second, as the rule asks, where there is none."""
    steps_ns = [later.mono_ns - earlier.mono_ns for earlier, later in pairwise(samples)]
    return statistics.median(steps_ns) / 1e9 if steps_ns and statistics.median(steps_ns) > 0 else 1.0
