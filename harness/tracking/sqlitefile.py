"""The file of an SQLite store: where it is, one process at a time where that is needed, and its journal."""

from __future__ import annotations

import fcntl
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

PATIENCE_S = 60.0  # the first start of a store migrates for 4 to 12 s, longer on a busy machine
_POLL_S = 0.05


def path_in(uri: str) -> Path | None:
    """The file that an SQLAlchemy URI names; None for a store that is no SQLite file."""
    match = re.fullmatch(r"sqlite(?:\+pysqlite)?:///([^?]+)(?:\?.*)?", uri)
    return Path(match.group(1)).absolute() if match else None


@contextmanager
def locked(path: Path, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Holds the lock beside the file.

    Raises:
        TimeoutError: another process has held it for `patience_s` seconds.
        OSError: the lock cannot be made.
    """
    with open(f"{path}.lock", "a") as stream:
        give_up = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise TimeoutError(f"another process has held {path}.lock for {patience_s:g} s") from None
                time.sleep(_POLL_S)
        yield


def set_write_ahead(path: Path) -> None:
    """Makes readers and the writer no longer wait for each other; stays set in the file.

    Raises:
        sqlite3.Error: there is no such folder, or the file is no database.
    """
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
