"""Reads a run log: strict about our lines, tolerant about other programs' lines between them, one pass.

Damage is collected as defects with line numbers: whoever judges the log turns them into findings.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import LogError
from harness.log.events import TOKEN, Event
from harness.log.logpass import MAX_EVENTS_PER_KEY, MAX_KEPT_BYTES, MAX_LINE_BYTES, UNREAD, Collector, Defect

if TYPE_CHECKING:  # for a log of another program they cost more than to read it
    from harness.energy.run_energy import RunEnergy
    from harness.log.power_format import NodePower

__all__ = ["MAX_EVENTS_PER_KEY", "MAX_KEPT_BYTES", "MAX_LINE_BYTES", "Defect", "RunLog", "read"]


@dataclass(frozen=True, slots=True)
class RunLog:
    """A log that was read to its end.

    events: the events in the order of the file, without those of a key beyond the first 10,000 and without what
        comes after 64 MiB of lines.
    defects: at most 100 of a kind; defect_counts: how many there are of each.
    sha256, num_bytes, num_lines: of the whole file. counts: events by key.
    nodes, idle: the power logs of the run and of the idle baseline, from `harness.log.power_files`; empty: not metered.
    """

    path: Path
    events: tuple[Event, ...]
    defects: tuple[Defect, ...]
    sha256: str
    num_bytes: int
    num_lines: int
    counts: dict[str, int]
    _by_key: dict[str, tuple[Event, ...]] = field(repr=False)
    nodes: tuple[NodePower, ...] = field(default=(), repr=False)
    idle: tuple[NodePower, ...] = field(default=(), repr=False)
    defect_counts: dict[str, int] = field(default_factory=dict)
    energies: dict[object, RunEnergy] = field(default_factory=dict, init=False, repr=False, compare=False)  # computed
    memo: dict[str, object] = field(default_factory=dict, init=False, repr=False, compare=False)  # what checks share

    def all(self, key: str) -> tuple[Event, ...]:
        """Every event of `key`, in the order of the file."""
        return self._by_key.get(key, ())

    def first(self, key: str) -> Event | None:
        """The first event of `key`, or None."""
        events = self._by_key.get(key)
        return events[0] if events else None

    def one(self, key: str) -> Event:
        """The only event of `key`.

        Raises:
            LogError: there is none, or more than one.
        """
        events = self._by_key.get(key, ())
        if not events:
            raise LogError(f"{self.path}: has no {key!r}")
        if len(events) > 1:
            raise LogError(f"{self.path}:{events[1].lineno}: a second {key!r}; there must be one")
        return events[0]

    def value(self, key: str) -> Any:
        """The value of the first event of `key`, or None."""
        event = self.first(key)
        return None if event is None else event.value

    def field(self, key: str, name: str) -> Any:
        """The field `name` in the value of the first event of `key`; None where it is absent."""
        value = self.value(key)
        return value.get(name) if isinstance(value, dict) else None

    def line_of(self, key: str) -> int | None:
        """The line of the first event of `key`, or None."""
        event = self.first(key)
        return None if event is None else event.lineno

    def defects_of(self, kind: str) -> tuple[Defect, ...]:
        """The defects of one kind, in the order of the file."""
        return tuple(defect for defect in self.defects if defect.kind == kind)

    @property
    def num_unread(self) -> int:
        """How many lines are no events, or are not kept: what they say nobody has judged."""
        return sum(self.defect_counts.get(kind, 0) for kind in UNREAD)

    @property
    def has_monotonic_time(self) -> bool:
        return bool(self.events) and self.events[0].elapsed_ns is not None

    @property
    def is_foreign(self) -> bool:
        """Whether another program wrote it: there are events, and none has monotonic time."""
        if "foreign" not in self.memo:  # every check asks
            self.memo["foreign"] = self.events and all(event.elapsed_ns is None for event in self.events)
        return bool(self.memo["foreign"])

    def seconds(self, start: Event, stop: Event) -> float:
        """Seconds from one event to another: monotonic where both have it, else by wall time."""
        if start.elapsed_ns is not None and stop.elapsed_ns is not None:
            return (stop.elapsed_ns - start.elapsed_ns) / 1e9
        return (stop.time_ms - start.time_ms) / 1e3


def read(path: Path) -> RunLog:
    """Reads the log at `path`.

    Raises:
        LogError: there is no such file, it is no regular file, it cannot be read, or no line of it is ours.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)  # before fdopen, which does not take a folder
        raise LogError(f"{path}: is not a regular file")
    collector = Collector()
    with os.fdopen(fd, "rb", buffering=0) as stream:
        try:
            collector.read(stream)
        except OSError as error:
            raise LogError(f"{path}: cannot be read: {error.strerror}") from None
    if not collector.counts and not collector.defects:
        what = "is empty" if collector.num_bytes == 0 else f"no line of it has {TOKEN.strip()!r}: not a run log"
        raise LogError(f"{path}: {what}")
    log = RunLog(
        path=path,
        events=tuple(collector.events),
        defects=tuple(collector.defects),
        sha256=collector.sha256.hexdigest(),
        num_bytes=collector.num_bytes,
        num_lines=collector.num_lines,
        counts=collector.counts,
        _by_key={key: tuple(events) for key, events in collector.by_key.items()},
        defect_counts=collector.defects_by_kind,
    )
    if not collector.is_chained:
        log.memo["foreign"] = bool(log.events)
    return log
