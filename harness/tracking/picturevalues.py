"""What a picture of a run is made of: points, a data set, and where the run's clock is zero."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a metric. time_ms: wall time of the referee's clock. step: samples trained on."""

    name: str
    value: float
    time_ms: int
    step: int


@dataclass(frozen=True, slots=True)
class ClockZero:
    """Where the referee's clock is zero: on the system's monotonic clock, and on the wall's."""

    mono_ns: int
    wall_ms: float


@dataclass(frozen=True, slots=True)
class DataSet:
    """The data that the run trained on."""

    name: str
    digest: str
    num_files: int | None
    num_bytes: int | None
