"""The clock of a run: monotonic, never paused, with wall time derived from it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """Time as the referee sees it.

    `elapsed_ns` is monotonic nanoseconds since the clock was made. `time_ms` is wall time in milliseconds since the
    epoch, read once when the clock was made and advanced by `elapsed_ns`, so that the two can never disagree and a
    step of the system's clock cannot reach a result. `origin_ns` is the system's monotonic clock where `elapsed_ns`
    is zero.
    """

    @property
    def origin_ns(self) -> int: ...
    def elapsed_ns(self) -> int: ...
    def time_ms(self, elapsed_ns: int) -> int: ...
    def wall_drift_ms(self) -> int: ...


class MonotonicClock:
    """CLOCK_MONOTONIC_RAW where the system has it: NTP slews CLOCK_MONOTONIC by up to 500 ppm.

    origin_ns, wall_start_ms: of a clock that another process had, to go on with it; None for a clock that starts now.
    """

    def __init__(self, origin_ns: int | None = None, wall_start_ms: int | None = None) -> None:
        self._id = self.clock_id()
        self._start_ns = time.clock_gettime_ns(self._id) if origin_ns is None else origin_ns
        self._wall_start_ms = time.time_ns() // 1_000_000 if wall_start_ms is None else wall_start_ms

    @classmethod
    def by_wall(cls, wall_start_ms: int) -> MonotonicClock:
        """Return a clock whose `elapsed_ns` is the wall time since `wall_start_ms`, now; from now on it is monotonic.

        For a clock that went on counting while its machine was off.
        """
        elapsed_ns = time.time_ns() - wall_start_ms * 1_000_000
        return cls(time.clock_gettime_ns(cls.clock_id()) - elapsed_ns, wall_start_ms)

    @staticmethod
    def clock_id() -> int:
        """Return the id of the system clock that is read; all processes of a machine share its zero."""
        return int(getattr(time, "CLOCK_MONOTONIC_RAW", time.CLOCK_MONOTONIC))

    @property
    def origin_ns(self) -> int:
        """The system clock's nanoseconds where `elapsed_ns` is zero."""
        return self._start_ns

    @property
    def resolution_ns(self) -> int:
        """Resolution that the system states for this clock, in nanoseconds."""
        return max(1, round(time.clock_getres(self._id) * 1e9))

    def elapsed_ns(self) -> int:
        return time.clock_gettime_ns(self._id) - self._start_ns

    def time_ms(self, elapsed_ns: int) -> int:
        return self._wall_start_ms + elapsed_ns // 1_000_000

    def wall_drift_ms(self) -> int:
        """Return by how many milliseconds the system's wall clock has moved against this clock since it was made."""
        return time.time_ns() // 1_000_000 - self.time_ms(self.elapsed_ns())


def boot_id() -> str:
    """Return the kernel's name for the time since this machine was started: its monotonic clock has one zero in it."""
    return _BOOT_ID.read_text().strip()
