"""What other programs wrote between the lines of a log: their clocks, seeds, hosts and totals. One bounded pass.

An MLPerf run log is the output of a whole job. Its own lines are easily edited; the framework's lines between them say
the same things in other words, and must agree.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import LogError
from harness.log.events import Event

_TOKEN = b":::MLLOG "
_MAX_LINE_BYTES = 64 << 10  # a longer line is read in pieces of this size
_MAX_BYTES = 512 << 20
_MAX_ITEMS = 20_000
_MAX_NAMES = 20  # of qualities; the first that a log has
_STAMP = re.compile(rb"\b(20\d\d-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?: ([AP]M))?")
_SEED = re.compile(rb"(?:^|[\s'\"])(?:--seed[ =]|(?:export )?SEED=|seed: )(\d{1,19})\b")
_HELLO = re.compile(rb"(?:Hello from:|Clearing cache on|hostname:) ?([A-Za-z][\w.-]{1,63})")
_USER = re.compile(rb"/home/(?:users/)?([A-Za-z][\w.-]{1,31})/")
_RANK = re.compile(rb" {0,5}(\d{1,6}): ")
_FIRST = frozenset(bytes([item]) for item in b" 0123456789")
_TOTAL = re.compile(rb"\bRESULT,[A-Z0-9_ ]{1,40},[^,]*,(\d{1,9}),")
_PART = re.compile(rb"(?i)\btotal time: (\d{1,4}):([0-5]\d):([0-5]\d)\b")
_QUALITY = re.compile(
    rb"\b((?:eval|val|valid|validation|test)_\w{0,20}(?:accuracy|acc|loss|auc|dice|wer|map)|"
    rb"Average Precision +\(AP\) @\[ IoU=0\.50:0\.95 \| area= +all \| maxDets=\d+ \])"
    rb"['\"]?\s*[:=]\s*(\d{1,6}\.\d{3,17})\b"
)
_MIN_TIME_MS = 1e9  # the headers of some published logs have zero, or a time since boot


@dataclass(frozen=True, slots=True)
class Stamp:
    """A time that another program wrote, read as UTC, and the log's own lines before and after it, in wall seconds."""

    line: int
    at_s: float
    before_s: float
    after_s: float | None


@dataclass(frozen=True, slots=True)
class Printed:
    """A quality that another program printed, under which name, and the digits it has."""

    line: int
    name: str
    text: str

    def is_of(self, value: float) -> bool:
        """Whether the value is this one, to the digits that were printed."""
        return abs(value - float(self.text)) <= 0.51 * 10.0 ** -len(self.text.partition(".")[2])


@dataclass(frozen=True, slots=True)
class LogText:
    """What lines without the log's token say.

    num_others: the number of such lines. launched: lines of the log before which a launcher wrote a rank
    ("0: :::MLLOG"). num_ranks: the number of ranks before lines, if they are consecutive from 0. seeds, totals_s:
    as other programs state them, with their lines. parts_s: the total times of epochs and evaluations, those of the
    process that printed the first. qualities: as other programs print them, of the first twenty names. has_rest:
    whether the file is longer than 512 MiB, which is where reading stops.
    """

    num_others: int = 0
    launched: int = 0
    num_ranks: int = 0
    stamps: tuple[Stamp, ...] = ()
    seeds: tuple[tuple[int, int], ...] = ()
    hosts: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    totals_s: tuple[tuple[float, int], ...] = ()
    parts_s: tuple[tuple[float, int], ...] = ()
    qualities: tuple[Printed, ...] = ()
    has_rest: bool = False


def read_text(path: Path, events: Iterable[Event]) -> LogText:
    """The text of the log at `path` between the lines of its `events`, whose times are as the checks read them.

    Raises:
        LogError: it cannot be read, or is not a regular file.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise LogError(f"{path}: is not a regular file")
    reader = _Reader({event.lineno: event.time_ms for event in events})
    with os.fdopen(fd, "rb") as stream:
        num_bytes = 0
        lineno = 1
        while num_bytes < _MAX_BYTES and (line := stream.readline(_MAX_LINE_BYTES)):
            reader.take(lineno, line)
            num_bytes += len(line)
            lineno += line.endswith(b"\n")
        return reader.result(bool(stream.read(1)))


class _Reader:
    """State of the pass."""

    def __init__(self, times_ms: dict[int, float]) -> None:
        self.times_ms = times_ms  # of the log's own lines
        self.num_others = self.launched = 0
        self.mllog_s: float | None = None
        self.open: list[tuple[int, float, float]] = []  # stamps since the last line of the log itself
        self.stamps: list[Stamp] = []
        self.seeds: dict[int, int] = {}
        self.hosts: set[str] = set()
        self.users: set[str] = set()
        self.totals: list[tuple[float, int]] = []
        self.rank_of_parts: bytes | None = None
        self.parts: list[tuple[float, int]] = []
        self.qualities: list[Printed] = []
        self.names: set[str] = set()  # of qualities
        self.ranks: set[int] = set()

    def take(self, lineno: int, line: bytes) -> None:
        place = line.rfind(_TOKEN)
        if place >= 0:
            self.launched += place > 0 and line[:place].strip().rstrip(b":").isdigit()
        if line[:1] in _FIRST and len(self.ranks) < _MAX_ITEMS and (match := _RANK.match(line)):
            self.ranks.add(int(match.group(1)))
        if lineno in self.times_ms:
            self._take_own(self.times_ms[lineno])
        if place >= 0 or lineno in self.times_ms:  # a long line comes in several pieces
            return
        self.num_others += 1
        if b"20" in line and b"RESULT," not in line and self.mllog_s is not None and len(self.stamps) < _MAX_ITEMS:
            match = _STAMP.search(line)
            at_s = None if match is None else _seconds(*match.groups())
            if at_s is not None:
                self.open.append((lineno, at_s, self.mllog_s))
        if b"eed" in line or b"SEED" in line:
            for match in _SEED.finditer(line):
                if len(self.seeds) < _MAX_ITEMS:
                    self.seeds.setdefault(int(match.group(1)), lineno)
        if len(self.hosts) < _MAX_ITEMS and (match := _HELLO.search(line)):
            self.hosts.add(match.group(1).decode())
        if b"/home/" in line and len(self.users) < _MAX_ITEMS:
            self.users |= {item.decode() for item in _USER.findall(line)}
        if b"otal time: " in line and len(self.parts) < _MAX_ITEMS and (match := _PART.search(line)):
            self._take_part(lineno, line, *(int(item) for item in match.groups()))
        if (b"val" in line or b"test_" in line or b"(AP)" in line) and len(self.qualities) < _MAX_ITEMS:
            self._take_quality(lineno, line)
        if b"RESULT," in line and len(self.totals) < _MAX_ITEMS and (match := _TOTAL.search(line)):
            self.totals.append((float(match.group(1)), lineno))

    def _take_own(self, time_ms: float) -> None:
        if time_ms < _MIN_TIME_MS:
            return
        now_s = time_ms / 1e3
        if len(self.stamps) < _MAX_ITEMS:
            self.stamps += [Stamp(line, at_s, before_s, now_s) for line, at_s, before_s in self.open]
        self.open.clear()
        self.mllog_s = now_s

    def _take_quality(self, lineno: int, line: bytes) -> None:
        for match in _QUALITY.finditer(line):
            name = match.group(1).decode()
            if name in self.names or len(self.names) < _MAX_NAMES:
                self.names.add(name)
                self.qualities.append(Printed(lineno, name, match.group(2).decode()))

    def _take_part(self, lineno: int, line: bytes, hours: int, minutes: int, seconds: int) -> None:
        match = _RANK.match(line)
        rank = match.group(1) if match else b""
        if self.rank_of_parts is None:
            self.rank_of_parts = rank
        if rank == self.rank_of_parts:
            self.parts.append((3600.0 * hours + 60.0 * minutes + seconds, lineno))

    def result(self, has_rest: bool) -> LogText:
        tail = [Stamp(line, at_s, before_s, None) for line, at_s, before_s in self.open]
        return LogText(
            num_others=self.num_others,
            launched=self.launched,
            num_ranks=len(self.ranks) if self.ranks == set(range(len(self.ranks))) else 0,
            stamps=tuple([*self.stamps, *tail][:_MAX_ITEMS]),
            seeds=tuple(self.seeds.items()),
            hosts=frozenset(self.hosts),
            users=frozenset(self.users),
            totals_s=tuple(self.totals),
            parts_s=tuple(self.parts),
            qualities=tuple(self.qualities),
            has_rest=has_rest,
        )


def _seconds(day: bytes, clock: bytes, half: bytes | None) -> float | None:
    """A date and a time, on a 12-hour clock if `half` says which half, in seconds; None if there is no such day."""
    text = b" ".join(part for part in (day, clock, half) if part is not None).decode()
    try:
        found = datetime.strptime(text, "%Y-%m-%d %H:%M:%S" if half is None else "%Y-%m-%d %I:%M:%S %p")
    except ValueError:
        return None
    return found.replace(tzinfo=UTC).timestamp()
