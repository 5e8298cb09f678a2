"""What everybody sees of the tables: numbered in the database, and kept by each process while it is the newest.

Every transaction that changes what is ranked, or how, makes a new edition. What a process has made of one is handed out
again as long as the database says that there is no later one: nothing is shown that is not so any more, whichever
process changed it.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable

from sqlalchemy import Connection, select, update

from harness.service import schema

MAX_BYTES = 32 << 20
ENTRY_BYTES = 1 << 10  # what an entry takes besides what is kept and the texts of its key
_LEVEL = 3  # of zlib: a page of 54 kB is 8 kB, packed in 0.2 ms and unpacked in 0.1 ms
_PLAIN = 4  # of so many bytes one is for what was asked for last, as it was made
_edition = schema.edition
_newest = select(_edition.c.number)


def begin(connection: Connection) -> None:
    """Make a new edition. Before the event of the transaction, if it has one: others wait for the end of both."""
    connection.execute(update(_edition).values(number=_edition.c.number + 1))


def newest(connection: Connection) -> int:
    """Return the number of the newest edition."""
    return int(connection.execute(_newest).scalar_one())


class _Entry:
    """Something of an edition. lock: whoever has it makes it, and others wait instead of making it, too.

    packed: what was made, compressed. num_bytes: that it takes, with its key, which may be longer.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.packed: bytes | None = None
        self.num_bytes = 0


class Kept:
    """What was made of the newest edition, by key; what was not asked for longest goes first."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_plain = max_bytes // _PLAIN
        self._max_packed = max_bytes - self._max_plain
        self._lock = threading.Lock()
        self._edition = -1
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._plain: OrderedDict[Hashable, bytes] = OrderedDict()
        self._num_packed = self._num_plain = 0

    def get(self, edition: int, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return what `make` returned for this key in this edition, which the caller has just read.

        What is made may be of a later edition, if one begins meanwhile.
        """
        with self._lock:
            if edition > self._edition:  # otherwise another request has read a later one in between
                self._edition, self._num_packed, self._num_plain = edition, 0, 0
                self._entries.clear()
                self._plain.clear()
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            if (plain := self._plain.get(key)) is not None:
                self._plain.move_to_end(key)
                return plain
        with entry.lock:
            if entry.packed is None:
                try:
                    found = make()
                    entry.packed = zlib.compress(found, _LEVEL)
                finally:
                    self._count(key, entry)
            else:
                found = zlib.decompress(entry.packed)
        self._show(key, entry, found)
        return found

    def _count(self, key: Hashable, entry: _Entry) -> None:
        """Make room for what was made; forget what could not be made."""
        with self._lock:
            if self._entries.get(key) is not entry:
                return
            if entry.packed is None:
                del self._entries[key]
                return
            entry.num_bytes = ENTRY_BYTES + len(entry.packed) + 4 * len(repr(key))  # a character has up to 4 bytes
            self._num_packed += entry.num_bytes
            while self._num_packed > self._max_packed:
                gone, old = self._entries.popitem(last=False)
                self._num_packed -= old.num_bytes
                self._num_plain -= len(self._plain.pop(gone, b""))

    def _show(self, key: Hashable, entry: _Entry, found: bytes) -> None:
        """Keep what was asked for as it is, too, in place of what was not asked for longest."""
        with self._lock:
            if self._entries.get(key) is not entry or key in self._plain:
                return
            self._plain[key] = found
            self._num_plain += len(found)
            while self._num_plain > self._max_plain:
                _, old = self._plain.popitem(last=False)
                self._num_plain -= len(old)
