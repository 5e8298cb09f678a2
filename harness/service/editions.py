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
_LEVEL = 3  # of zlib: a page of 54 kB is 8 kB, packed in 0.3 ms and unpacked in 0.1 ms
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
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._edition = -1
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._num_bytes = 0

    def get(self, edition: int, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return what `make` returned for this key in this edition, which the caller has just read.

        What is made may be of a later edition, if one begins meanwhile.
        """
        with self._lock:
            if edition > self._edition:  # otherwise another request has read a later one in between
                self._edition, self._num_bytes = edition, 0
                self._entries.clear()
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
        with entry.lock:
            if entry.packed is None:
                try:
                    made = make()
                    entry.packed = zlib.compress(made, _LEVEL)
                finally:
                    self._count(key, entry)
                return made
        return zlib.decompress(entry.packed)

    def _count(self, key: Hashable, entry: _Entry) -> None:
        """Make room for what was made; forget what could not be made."""
        with self._lock:
            if self._entries.get(key) is not entry:
                return
            if entry.packed is None:
                del self._entries[key]
                return
            entry.num_bytes = ENTRY_BYTES + len(entry.packed) + 4 * len(repr(key))  # a character has up to 4 bytes
            self._num_bytes += entry.num_bytes
            while self._num_bytes > self._max_bytes:
                _, gone = self._entries.popitem(last=False)
                self._num_bytes -= gone.num_bytes
