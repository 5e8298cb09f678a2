"""Meters, readings and nodes in memory, and power logs in MLPerf's format on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.log.power_format import ClockOffset, MeterSpec, NodePower, Sample

SECOND_NS = 1_000_000_000
WALL_MS = 1_715_000_000_000


def ns(seconds: float) -> int:
    return round(seconds * SECOND_NS)


def spec(**changes: Any) -> MeterSpec:
    """A calibrated wall meter of the whole node, 1 % accurate, read once a second."""
    fields: dict[str, Any] = {
        "id": "csv:wall",
        "component": "node",
        "scope": "ac",
        "meter_class": "A",
        "kind": "power_w",
        "period_s": 1.0,
        "source": "a test",
        "accuracy_pct": 1.0,
    }
    return MeterSpec(**{**fields, **changes})


def package(number: int = 0, **changes: Any) -> MeterSpec:
    """A processor package's energy counter, as Intel's: it wraps at 262,143 J."""
    fields: dict[str, Any] = {
        "id": f"powercap:package-{number}",
        "component": "cpu_package",
        "scope": "package",
        "meter_class": "C",
        "kind": "energy_j",
        "device": f"package-{number}",
        "wrap_at_j": 262_143.0,
        "max_power_w": 500.0,
    }
    return spec(**{**fields, **changes})


def gpu(number: int = 0, **changes: Any) -> MeterSpec:
    """An accelerator's energy counter; it does not wrap."""
    fields: dict[str, Any] = {
        "id": f"nvml:GPU-{number}:energy",
        "component": "gpu",
        "scope": "board",
        "meter_class": "C",
        "kind": "energy_j",
        "device": f"GPU-{number}",
    }
    return spec(**{**fields, **changes})


def power(
    watts: Callable[[float], float] | float, from_s: float = -5.0, to_s: float = 125.0, step_s: float = 1.0
) -> tuple[Sample, ...]:
    """Watts at every step, both ends included."""
    times = [from_s + index * step_s for index in range(round((to_s - from_s) / step_s) + 1)]
    return tuple(Sample(ns(at_s), watts(at_s) if callable(watts) else float(watts)) for at_s in times)


def counter(
    watts: float,
    from_s: float = -5.0,
    to_s: float = 125.0,
    step_s: float = 1.0,
    first_j: float = 1000.0,
    wrap_at_j: float | None = None,
) -> tuple[Sample, ...]:
    """A counter of constant power, `first_j` at the first reading."""
    samples = power(0.0, from_s, to_s, step_s)
    joules = [first_j + watts * (sample.mono_ns - samples[0].mono_ns) / 1e9 for sample in samples]
    return tuple(
        Sample(sample.mono_ns, value if wrap_at_j is None else value % wrap_at_j)
        for sample, value in zip(samples, joules, strict=True)
    )


def node(
    number: int = 0,
    meters: Mapping[MeterSpec, Sequence[Sample]] | None = None,
    offsets: Iterable[ClockOffset] = (ClockOffset(0, 0, 100_000), ClockOffset(120 * SECOND_NS, 0, 100_000)),
    **changes: Any,
) -> NodePower:
    """A node with these meters; by default, a wall meter at 300 W plus `number` milliwatts."""
    meters = meters or {spec(device=f"meter-{number}"): power(300.0 + number / 1000)}
    fields: dict[str, Any] = {
        "node": f"node_{number}",
        "path": Path(f"power/result_0/node_{number}.txt"),
        "host": f"host{number}",
        "machine": f"machine{number}",
        "specs": {each.id: each for each in meters},
        "samples": {each.id: tuple(samples) for each, samples in meters.items()},
        "offsets": tuple(offsets),
    }
    return NodePower(**{**fields, **changes})


def switch(power_w: float, number: int = 0) -> NodePower:
    """A switch with an estimated power."""
    name = f"sw_{number}"
    return NodePower(name, Path(f"power/result_0/{name}.txt"), None, {}, {}, interconnect_w=power_w, dialect="mlperf")


def mlperf_line(time_ms: Any, key: str, value: Any, metadata: Any = "", event_type: str | None = None) -> str:
    """A line as in the published power logs: metadata is an empty string."""
    kinds = {"power_measurement_start": "INTERVAL_START", "power_measurement_stop": "INTERVAL_END"}
    kind = event_type or kinds.get(key, "POINT_IN_TIME")
    record = {"namespace": "", "time_ms": time_ms, "event_type": kind, "key": key, "value": value, "metadata": metadata}
    return f":::MLLOG {json.dumps(record)}\n"


def mlperf_log(
    path: Path,
    readings: Sequence[tuple[int, Any]],
    start_ms: int | None = None,
    stop_ms: int | None = None,
    null: Any = None,
    metadata: Any = None,
) -> Path:
    """A power log in MLPerf's format; start and stop default to the times of the first and the last reading."""
    metadata = {} if metadata is None else metadata
    start_ms = readings[0][0] if start_ms is None else start_ms
    stop_ms = readings[-1][0] if stop_ms is None else stop_ms
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [mlperf_line(start_ms, "power_measurement_start", null, metadata)]
    lines += [mlperf_line(at_ms, "power_reading", watts, metadata) for at_ms, watts in readings]
    lines.append(mlperf_line(stop_ms, "power_measurement_stop", null, metadata))
    path.write_text("".join(lines))
    return path


def mlperf_trace(
    folder: Path, readings: list[tuple[float, float]], start_s: float, stop_s: float, name: str = "node_0"
) -> Path:
    """Readings at seconds after WALL_MS."""
    return mlperf_log(
        folder / f"{name}.txt",
        [(WALL_MS + round(1000 * at_s), watts) for at_s, watts in readings],
        WALL_MS + round(1000 * start_s),
        WALL_MS + round(1000 * stop_s),
        null="null",
        metadata="",
    )
