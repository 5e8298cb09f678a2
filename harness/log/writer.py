"""Writes the log of a run as it happens: one system call per line, nothing buffered."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.base.clock import Clock
from harness.base.processes import SOURCE_ROOT
from harness.errors import OutputError
from harness.log.events import CHAIN_START, Event, EventType, format_line, line_digest


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where a log without `tta_end` ends: bytes and number of its whole lines, and the digest of the last one."""

    num_bytes: int
    num_events: int
    prev: str


class LogWriter:
    """Appends events to a log file: a new one, or one that ends at `end`, whatever is after it.

    A line that cannot be written completely is removed again, so that the file remains readable.

    Raises:
        OutputError: a new file exists, cannot be created, or cannot be written (a full disk).
    """

    def __init__(self, path: Path, clock: Clock, end: LogEnd | None = None) -> None:
        self.path = path
        self._clock = clock
        self._seq, self._size = (0, 0) if end is None else (end.num_events, end.num_bytes)
        self._prev = CHAIN_START if end is None else end.prev
        is_new = os.O_CREAT | os.O_EXCL if end is None else 0
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | is_new, 0o644)
            os.ftruncate(self._fd, self._size)
        except FileExistsError:
            raise OutputError(f"{path}: exists already; a run never overwrites another") from None
        except OSError as error:
            raise OutputError(f"{path}: cannot be created: {error.strerror}") from None

    @property
    def num_events(self) -> int:
        return self._seq

    def event(
        self,
        key: str,
        value: object = None,
        metadata: Mapping[str, object] | None = None,
        event_type: EventType = "POINT_IN_TIME",
        depth: int = 1,
    ) -> int:
        """Write one event now and return its `elapsed_ns`. depth: how many frames up the logged file and line are."""
        elapsed_ns = self._clock.elapsed_ns()
        frame = sys._getframe(depth)
        place = Path(frame.f_code.co_filename)
        record = {
            "file": str(place.relative_to(SOURCE_ROOT)) if place.is_relative_to(SOURCE_ROOT) else place.name,
            "lineno": frame.f_lineno,
            "seq": self._seq,
            "elapsed_ns": elapsed_ns,
            "prev": self._prev,
            **(metadata or {}),
        }
        line = format_line(Event(self._clock.time_ms(elapsed_ns), event_type, key, value, record, 0))
        data = line.encode() + b"\n"
        try:
            written = os.write(self._fd, data)
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise OutputError(f"{self.path}: cannot be written: {error.strerror}; the run is not complete") from None
        self._size += len(data)
        self._seq += 1
        self._prev = line_digest(line)
        return elapsed_ns

    def start(self, key: str, metadata: Mapping[str, object] | None = None) -> int:
        """Write an INTERVAL_START without a value."""
        return self.event(key, None, metadata, "INTERVAL_START", depth=2)

    def stop(self, key: str, metadata: Mapping[str, object] | None = None) -> int:
        """Write an INTERVAL_END without a value."""
        return self.event(key, None, metadata, "INTERVAL_END", depth=2)

    def flush(self) -> None:
        """Wait until every line is on the disk."""
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be flushed to the disk: {error.strerror}") from None

    def close(self) -> None:
        """Flush the file to the disk and close it; a second call does nothing."""
        if self._fd < 0:
            return
        try:
            self.flush()
        finally:
            fd, self._fd = self._fd, -1
            os.close(fd)
