"""Reads a run log in one pass: strict about `tta`'s lines, tolerant about other programs' lines between them.

The file is read in pieces and searched for the token, so that other programs' lines cost next to nothing, a log of
gigabytes needs a few megabytes, and a line without an end cannot fill the memory. What is an event is kept; damage
becomes a defect with its line number, and the checks turn defects into findings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, TypeVar, TypeVarTuple

from harness.base.files import open_regular
from harness.base.values import is_whole
from harness.errors import LogError, printable
from harness.log.events import CHAIN_START, TOKEN, Event
from harness.log.keys import POWER_READING, TRACKED_STATS, TTA_CHECKPOINT_STOP, TTA_RESUME
from harness.log.parse import events_of, has_no_time, is_foreign_event, parse_line

if TYPE_CHECKING:  # takes longer to import than another program's log to read
    from harness.log.power_format import NodePower

T = TypeVar("T")
Args = TypeVarTuple("Args")
Batch: TypeAlias = tuple[Sequence[int], Sequence[bytes]]  # line numbers, and the text after the token on each line
MAX_LINE_BYTES = 1 << 20  # the longest event in a real log has some kilobytes
# Of `tta`'s logs, where a run has tens of evaluations; of statistics and power readings, which decide nothing and are
# counted beyond that, in all logs. In logs of other programs every process of a large machine may log its start: v3.1
# of MLPerf has 10,752 of one key.
MAX_EVENTS_PER_KEY = 10_000
_STATISTICS = (TRACKED_STATS, POWER_READING)
MAX_KEPT_BYTES = 64 << 20  # of lines; parsed, they take up to twenty times as much memory
MAX_DEFECTS_PER_KIND, _MAX_KEYS = 100, 1_000
UNREAD = ("malformed", "overlong", "cut_off", "too_many")  # kinds of defects whose lines no check sees
_TOKEN = TOKEN.encode()
_ENDED_BY_CR = b"\r" + _TOKEN  # lines end with a carriage return alone
_PIECE_BYTES = MAX_LINE_BYTES >> 3  # fits into a processor's cache
_ORDER = frozenset({"seq", "elapsed_ns", "prev"})
_UNCHAINED = "a line without seq, elapsed_ns or prev in a log that has them"


@dataclass(frozen=True, slots=True)
class Defect:
    """A fault of a line as such.

    kind: "malformed" (not JSON, or not an event), "overlong", "cut_off" (the last line has no end),
    "sequence" (`seq` is not the next), "chain" (`prev` is not the digest of the line before),
    "backwards" (`elapsed_ns` decreases), "wall" (`time_ms` and `elapsed_ns` disagree), "unchained"
    (a line without `seq`, `elapsed_ns` or `prev` in a log that has them), "too_many".
    """

    kind: str
    lineno: int
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class RunLog:
    """A log, read to its end.

    events: in the order of the file, without those after 64 MiB of lines, and without those beyond the first 10,000 of
        a key: of any key in a log of `tta`, of statistics in logs of other programs; and without those in `lost`.
    lost: of a run that went on from a checkpoint after an interruption, what happened in between, and was done again.
    defects: at most 100 of a kind; defect_counts: how many there are of each.
    sha256, num_bytes, num_lines: of the whole file. counts: number of events by key, those in `lost` included.
    is_foreign: whether another program wrote it: there are events, and none has monotonic time.
    nodes, idle: the power logs of the run and of the idle baseline; empty until `harness.log.power_files` adds them.
    """

    path: Path
    events: tuple[Event, ...]
    defects: tuple[Defect, ...]
    sha256: str
    num_bytes: int
    num_lines: int
    counts: dict[str, int]
    _by_key: dict[str, tuple[Event, ...]] = field(repr=False)
    is_foreign: bool
    lost: tuple[Event, ...] = field(default=(), repr=False)
    nodes: tuple[NodePower, ...] = field(default=(), repr=False)
    idle: tuple[NodePower, ...] = field(default=(), repr=False)
    defect_counts: dict[str, int] = field(default_factory=dict)
    _computed: dict[tuple[object, ...], Any] = field(default_factory=dict, init=False, repr=False)  # by `cached`

    def all(self, key: str) -> tuple[Event, ...]:
        """Return every event of `key`, in the order of the file."""
        return self._by_key.get(key, ())

    def first(self, key: str) -> Event | None:
        """Return the first event of `key`, or None."""
        events = self._by_key.get(key)
        return events[0] if events else None

    def one(self, key: str) -> Event:
        """Return the only event of `key`.

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
        """Return the value of the first event of `key`, or None."""
        event = self.first(key)
        return None if event is None else event.value

    def field(self, key: str, name: str) -> Any:
        """Return the field `name` of the value of the first event of `key`; None if it is absent."""
        value = self.value(key)
        return value.get(name) if isinstance(value, dict) else None

    def line_of(self, key: str) -> int | None:
        """Return the line of the first event of `key`, or None."""
        event = self.first(key)
        return None if event is None else event.lineno

    def defects_of(self, kind: str) -> tuple[Defect, ...]:
        """Return the defects of one kind, in the order of the file."""
        return tuple(defect for defect in self.defects if defect.kind == kind)

    @property
    def num_unread(self) -> int:
        """Number of lines that are not events or are not kept, so that no check has seen them."""
        return sum(self.defect_counts.get(kind, 0) for kind in UNREAD)

    @property
    def has_monotonic_time(self) -> bool:
        return bool(self.events) and self.events[0].elapsed_ns is not None

    def seconds(self, start: Event, stop: Event) -> float:
        """Return the seconds from one event to another: monotonic if both have monotonic time, else by wall time."""
        if start.elapsed_ns is not None and stop.elapsed_ns is not None:
            return (stop.elapsed_ns - start.elapsed_ns) / 1e9
        return (stop.time_ms - start.time_ms) / 1e3

    def cached(self, compute: Callable[[RunLog, *Args], T], *args: *Args) -> T:
        """Return `compute(self, *args)`, computed once per function and arguments; these must be hashable.

        What is computed stays with this log and is not part of it: a copy made by `replace` begins with nothing.
        """
        key = (compute, *args)
        if key not in self._computed:
            self._computed[key] = compute(self, *args)
        found: T = self._computed[key]
        return found

    def forget(self) -> None:
        """Drop everything that `cached` keeps, and with it the references from there back to this log."""
        self._computed.clear()


def read(path: Path) -> RunLog:
    """Return the log at `path`.

    Raises:
        LogError: the file is missing, is not a regular file, cannot be read, or has no line with the token.
    """
    collector = Collector()
    with open_regular(path, buffering=0) as stream:
        try:
            collector.read(stream)
        except OSError as error:
            raise LogError(f"{path}: cannot be read: {error.strerror}") from None
    if not collector.counts and not collector.defects:
        what = "is empty" if collector.num_bytes == 0 else f"no line has {TOKEN.strip()!r}"
        raise LogError(f"{path}: {what}: not a run log")
    by_key = collector.by_key
    kept, lost = collector.events, list[Event]()
    if TTA_RESUME in by_key and collector.is_chained:
        kept, lost = _as_gone_on_with(collector.events)
        by_key = {}
        for event in kept:
            by_key.setdefault(event.key, []).append(event)
    events = tuple(kept)
    return RunLog(
        path=path,
        events=events,
        defects=tuple(collector.defects),
        sha256=collector.sha256.hexdigest(),
        num_bytes=collector.num_bytes,
        num_lines=collector.num_lines,
        counts=collector.counts,
        _by_key={key: tuple(events) for key, events in by_key.items()},
        defect_counts=collector.defects_by_kind,
        lost=tuple(lost),
        is_foreign=bool(events) and (not collector.is_chained or all(event.elapsed_ns is None for event in events)),
    )


def _as_gone_on_with(events: Sequence[Event]) -> tuple[list[Event], list[Event]]:
    """Return the events without those after a checkpoint from which the run went on, and these.

    Where there is no such checkpoint, nothing is taken out: RUN019 reports it.
    """
    kept, lost = list[Event](), list[Event]()
    for event in events:
        if event.key == TTA_RESUME and isinstance(event.value, dict):
            number = event.value.get("checkpoint")
            for place in range(len(kept) - 1, -1, -1):
                if kept[place].key == TTA_CHECKPOINT_STOP and kept[place].metadata.get("number") == number:
                    lost += kept[place + 1 :]
                    del kept[place + 1 :]
                    break
        kept.append(event)
    return kept, lost


class Collector:
    """State of one pass over a file."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()
        self.num_bytes = 0
        self.num_lines = 0
        self.events: list[Event] = []
        self.by_key: dict[str, list[Event]] = {}
        self.counts: dict[str, int] = {}
        self.defects: list[Defect] = []
        self.defects_by_kind: dict[str, int] = {}
        self.seq: int | None = None
        self.elapsed_ns: int | None = None
        self.wall_offset_ms: float | None = None
        self.prev = CHAIN_START
        self.before: bytes | None = None  # the previous line, in place of `prev`: most lines need no digest
        self.is_chained = False
        self.unchained: list[int] = []  # lines without seq, elapsed_ns and prev, before the first that has one
        self.kept_bytes = 0

    def read(self, stream: BinaryIO) -> None:
        """Take every line that has the token."""
        for linenos, texts in self.batches(stream):
            events = events_of(texts, linenos)
            if events is None or not self._keep_all(events, texts):
                for lineno, text, event in zip(linenos, texts, events or repeat(None), strict=False):
                    self.take(lineno, text, event)

    def batches(self, stream: BinaryIO) -> Iterator[Batch]:
        """Yield the lines that have the token, many at a time."""
        rest = b""
        skipped: bytes | None = None  # inside an overlong line: its last bytes, where a token may begin
        has_token = False  # whether that line has the token
        while piece := stream.read(_PIECE_BYTES):
            self.sha256.update(piece)
            self.num_bytes += len(piece)
            if skipped is not None:
                end = piece.find(b"\n")
                seen = skipped + (piece if end < 0 else piece[:end])
                has_token = has_token or _TOKEN in seen
                if end < 0:
                    skipped = seen[-len(_TOKEN) :]
                    continue
                self.num_lines += 1
                self._overlong(self.num_lines, has_token)
                piece, skipped = piece[end + 1 :], None
            block = rest + piece
            cut = block.rfind(b"\n") + 1
            rest = block[cut:]
            yield from self._batches_of(block[:cut])
            if len(rest) > MAX_LINE_BYTES:
                rest, skipped, has_token = b"", rest[-len(_TOKEN) :], _TOKEN in rest
        if rest or skipped is not None:
            self.num_lines += 1
        if skipped is not None:
            self._overlong(self.num_lines, has_token)
        elif (hit := rest.find(_TOKEN)) >= 0 and (_ENDED_BY_CR in rest[hit + 1 :] or is_foreign_event(rest[hit:])):
            yield [self.num_lines], [rest[hit + len(_TOKEN) :]]
        elif _TOKEN in rest or (rest and _TOKEN.startswith(rest)):
            self.defect("cut_off", self.num_lines, "the last line is cut off")  # `tta` ends its lines

    def _batches_of(self, block: bytes) -> Iterator[Batch]:
        """Yield the batch of whole lines: two tokens have a line end between them, unless a line has two tokens."""
        before, *parts = block.split(_TOKEN)
        num_ends = [part.count(b"\n") for part in parts]
        if 0 in num_ends or len(block) > MAX_LINE_BYTES:
            yield from self._batches_of_any_lines(block)
            return
        first = self.num_lines + before.count(b"\n") + 1
        *linenos, after = accumulate(num_ends, initial=first)
        self.num_lines = after - 1
        yield linenos, [part.partition(b"\n")[0] for part in parts]

    def _batches_of_any_lines(self, block: bytes) -> Iterator[Batch]:
        linenos, texts = list[int](), list[bytes]()
        for line in block.split(b"\n")[:-1]:
            self.num_lines += 1
            if (hit := line.find(_TOKEN)) < 0:
                continue
            if len(line) > MAX_LINE_BYTES:
                yield linenos, texts  # before the chain breaks
                linenos, texts = [], []
                self._overlong(self.num_lines, has_token=True)
            else:
                linenos.append(self.num_lines)
                texts.append(line[hit + len(_TOKEN) :])
        yield linenos, texts

    def _overlong(self, lineno: int, has_token: bool) -> None:
        if has_token:
            self.before, self.prev = None, ""  # no line can follow it in the chain
            self.defect("overlong", lineno, f"a line of more than {MAX_LINE_BYTES:,} bytes")

    def defect(self, kind: str, lineno: int, message: str) -> None:
        self.defects_by_kind[kind] = self.defects_by_kind.get(kind, 0) + 1
        if self.defects_by_kind[kind] <= MAX_DEFECTS_PER_KIND:
            self.defects.append(Defect(kind, lineno, message))

    def take(self, lineno: int, text: bytes, event: Event | None = None) -> None:
        """Take the text after the token of one line. event: what the text is, if it has been parsed."""
        line = _TOKEN + text.rstrip(b"\r")
        if self.defects_by_kind.get("malformed", 0) >= MAX_DEFECTS_PER_KIND and has_no_time(text):
            # Whole logs of MLPerf's round 0.7 lack `time_ms`; after a hundred such defects the reason is not needed.
            self.defects_by_kind["malformed"] += 1
            self.before = line
            return
        if event is None:
            event = next(iter(events_of([text], [lineno]) or ()), None)
        try:
            event = event or parse_line(line, lineno)
        except ValueError as error:
            self.defect("malformed", lineno, str(error))
        else:
            self._check_order(event)
            self._keep(event, len(line))
        self.before = line

    def _keep_all(self, events: Sequence[Event], texts: Sequence[bytes]) -> bool:
        """Keep all events at once, as `take` would one by one; False if a line has an order or a limit is exceeded."""
        num_bytes = sum(map(len, texts)) + len(_TOKEN) * len(texts)
        by_key: dict[str, list[Event]] = {}
        for event in events:
            by_key.setdefault(event.key, []).append(event)
        if (
            self.is_chained
            or not all(map(_ORDER.isdisjoint, [event.metadata for event in events]))
            or self.kept_bytes + num_bytes > MAX_KEPT_BYTES
            or len(self.counts.keys() | by_key) > _MAX_KEYS
            or any(self.counts.get(key, 0) + len(by_key.get(key, ())) > MAX_EVENTS_PER_KEY for key in _STATISTICS)
        ):
            return False
        self.kept_bytes += num_bytes
        self.events += events
        for key, found in by_key.items():
            self.counts[key] = self.counts.get(key, 0) + len(found)
            self.by_key.setdefault(key, []).extend(found)
        if events:
            num_free = MAX_DEFECTS_PER_KIND - len(self.unchained)
            self.unchained += [event.lineno for event in events[:num_free]]
            self.before = _TOKEN + texts[-1].rstrip(b"\r")
        return True

    def _keep(self, event: Event, num_bytes: int) -> None:
        count = self.counts.get(event.key, 0)
        if count == 0 and len(self.counts) >= _MAX_KEYS:
            self.defect("too_many", event.lineno, f"more than {_MAX_KEYS:,} different keys")
            return
        self.counts[event.key] = count + 1
        if count >= MAX_EVENTS_PER_KEY and (self.is_chained or event.key in _STATISTICS):
            if count == MAX_EVENTS_PER_KEY:
                self._too_many(event)
            return
        if self.kept_bytes <= MAX_KEPT_BYTES < self.kept_bytes + num_bytes:
            self.defect("too_many", event.lineno, f"more than {MAX_KEPT_BYTES:,} bytes of events")
        self.kept_bytes += num_bytes
        if self.kept_bytes <= MAX_KEPT_BYTES:
            self.events.append(event)
            self.by_key.setdefault(event.key, []).append(event)

    def _too_many(self, event: Event) -> None:
        if event.key not in _STATISTICS:
            self.defect("too_many", event.lineno, f"more than {MAX_EVENTS_PER_KEY:,} events {printable(event.key)!r}")

    def _check_order(self, event: Event) -> None:
        seq, prev, elapsed_ns = event.metadata.get("seq"), event.metadata.get("prev"), event.elapsed_ns
        if not self.is_chained:
            self.is_chained = seq is not None or prev is not None or elapsed_ns is not None
            if not self.is_chained:
                if len(self.unchained) < MAX_DEFECTS_PER_KIND:
                    self.unchained.append(event.lineno)
                return
            for lineno in self.unchained:
                self.defect("unchained", lineno, _UNCHAINED)
            for found in self.by_key.values():
                if len(found) > MAX_EVENTS_PER_KEY:
                    self._too_many(found[MAX_EVENTS_PER_KEY])
        if not is_whole(seq) or elapsed_ns is None or not isinstance(prev, str):
            self.defect("unchained", event.lineno, _UNCHAINED)
            return
        expected = 0 if self.seq is None else self.seq + 1
        if seq != expected:
            self.defect("sequence", event.lineno, f"seq is {seq}; after the previous line it must be {expected}")
        if prev != (self.prev if self.before is None else hashlib.sha256(self.before).hexdigest()):
            self.defect(
                "chain", event.lineno, "prev is not the SHA-256 of the previous line: one of the two was changed"
            )
        if self.elapsed_ns is not None and elapsed_ns < self.elapsed_ns:
            back_s = (self.elapsed_ns - elapsed_ns) / 1e9
            self.defect("backwards", event.lineno, f"elapsed_ns goes back by {back_s:.6f} s")
        offset_ms = event.time_ms - elapsed_ns / 1e6
        if self.wall_offset_ms is None:
            self.wall_offset_ms = offset_ms
        elif abs(offset_ms - self.wall_offset_ms) > 2:  # both are rounded down to a millisecond
            apart_s = (offset_ms - self.wall_offset_ms) / 1e3
            self.defect("wall", event.lineno, f"time_ms and elapsed_ns have moved apart by {apart_s:.3f} s")
        self.seq, self.elapsed_ns = seq, elapsed_ns
