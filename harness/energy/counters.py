"""Readings of an energy counter, which may wrap, fail, be wrong or be reset, as joules since the first. Pure.

A counter that steps down has wrapped if its device can have drawn the resulting difference; else one of the two
readings was garbage, if the readings around it are consistent without it; else the counter was reset, and what it
counted in between is lost. Every library gets one of the three wrong, with errors of -260,914 J and +262,143 J.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.log.power_format import Component, MeterSpec

# Watts that no current device exceeds, if the meter does not declare a maximum: the biggest sockets draw 0.5 kW, their
# memory 0.1 kW, the biggest accelerator modules 3 kW. Only used for counters that may wrap.
MAX_POWER_W: dict[Component, float] = {
    "cpu_package": 2_000.0,
    "core": 2_000.0,
    "uncore": 2_000.0,
    "dram": 500.0,
    "gpu": 5_000.0,
    "psys": 5_000.0,
}
MAX_POWER_ELSE_W = 1_000_000.0  # a row of racks
# The range of a processor's counter that does not declare one: 32 bits of 15.3 µJ, the smallest unit in use (AMD).
UNDECLARED_RANGE_J: dict[Component, float] = dict.fromkeys(("cpu_package", "core", "uncore", "dram", "psys"), 65_000.0)


@dataclass(frozen=True, slots=True)
class Counted:
    """A counter's readings as joules since the first good one.

    points: (time in nanoseconds, joules), both increasing, the joules not strictly.
    wraps, resets: (time before, time after) in nanoseconds of each. garbage: times of readings left out because the
        readings around them contradict them.
    unsure: the intervals in which the device can have drawn a further whole wrap, however far apart the readings are.
    """

    points: tuple[tuple[int, float], ...]
    wraps: tuple[tuple[int, int], ...]
    resets: tuple[tuple[int, int], ...]
    unsure: tuple[tuple[int, int], ...]
    garbage: tuple[int, ...]


def unwrap(readings: Sequence[tuple[int, float]], spec: MeterSpec) -> Counted:
    """Count the joules. readings: (nanoseconds, joules) in strictly increasing time, without failed reads."""
    kept, garbage = _without_garbage(readings, spec)
    points: list[tuple[int, float]] = []
    wraps, resets, unsure = [], [], []
    range_j = UNDECLARED_RANGE_J.get(spec.component) if spec.wrap_at_j is None else spec.wrap_at_j
    total_j = 0.0
    for index, (at_ns, value_j) in enumerate(kept):
        if index:
            before_ns, before_j = kept[index - 1]
            interval = (before_ns, at_ns)
            step_j = value_j - before_j
            most_j = _most_j(spec, before_ns, at_ns)
            if step_j < 0 and _is_wrap(spec, kept[index - 1], kept[index]):
                assert spec.wrap_at_j is not None
                wraps.append(interval)
                step_j += spec.wrap_at_j
            elif step_j < 0:
                resets.append(interval)
                step_j = 0.0  # the least it can be; the joules are void
            if range_j is not None and step_j + range_j <= most_j:
                unsure.append(interval)
            total_j += step_j
        points.append((at_ns, total_j))
    return Counted(tuple(points), tuple(wraps), tuple(resets), tuple(unsure), tuple(garbage))


def _most_j(spec: MeterSpec, from_ns: int, to_ns: int) -> float:
    """The most joules that the device can draw in that time."""
    max_power_w = spec.max_power_w or MAX_POWER_W.get(spec.component, MAX_POWER_ELSE_W)
    return max_power_w * (to_ns - from_ns) / 1e9


def _is_wrap(spec: MeterSpec, before: tuple[int, float], after: tuple[int, float]) -> bool:
    """Whether a step down is a wrap: both readings are in the range, and the device can have drawn the difference."""
    if spec.wrap_at_j is None or before[1] > spec.wrap_at_j:
        return False
    return after[1] + spec.wrap_at_j - before[1] <= _most_j(spec, before[0], after[0])


def _without_garbage(
    readings: Sequence[tuple[int, float]], spec: MeterSpec
) -> tuple[list[tuple[int, float]], list[int]]:
    """The readings without single ones that their neighbours contradict: a 0 from a failed read, a flipped bit."""
    kept: list[tuple[int, float]] = []
    garbage = []
    for index, reading in enumerate(readings):
        if kept and reading[1] < kept[-1][1] and not _is_wrap(spec, kept[-1], reading):
            later = readings[index + 1] if index + 1 < len(readings) else None
            if later is not None and later[1] >= kept[-1][1]:
                garbage.append(reading[0])  # too low, and the next one continues from the one before
                continue
            if len(kept) > 1 and kept[-2][1] <= reading[1]:
                garbage.append(kept.pop()[0])  # the one before was too high
        kept.append(reading)
    return kept, garbage
