"""The database: SQLite in one file, or PostgreSQL; the same statements for both.

A transaction that writes says so when it begins. SQLite refuses at once, whatever its timeout, a read that becomes a
write while another writes; one that begins as a write waits its turn.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError

from harness.errors import InputError, OutputError, UsageError, printable

BUSY_S = 15.0  # that a writer waits for the one before, in SQLite
POOL_SIZE = 20
PASSWORD_VARIABLE = "TTA_BOARD_DATABASE_PASSWORD_FILE"  # noqa: S105  (names a file with what an address has not)
_WRITES = "tta_writes"
_LOCK_KEY = 0x747461  # "tta": of PostgreSQL's advisory locks, for what one process does at a time


class Database:
    """A pool of connections. url: `sqlite:///FILE` or `postgresql+psycopg://…`.

    Raises:
        UsageError: the address is neither, or cannot be understood. InputError: its password cannot be read.
    """

    def __init__(self, url: str) -> None:
        self.url = _parsed(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        # A server that was started again closes its connections: they are replaced when one is found closed.
        options: dict[str, Any] = {"pool_size": POOL_SIZE, "max_overflow": POOL_SIZE, "pool_timeout": 30}
        if self.is_sqlite:
            options["connect_args"] = {"timeout": BUSY_S, "check_same_thread": False}
        self._engine = create_engine(self.url, **options)
        self._writer = self._engine.execution_options(**{_WRITES: True})
        # Single statements: without a transaction there is nothing to begin and to end.
        self._reader = self._engine if self.is_sqlite else self._engine.execution_options(isolation_level="AUTOCOMMIT")
        if self.is_sqlite:
            _prepare_sqlite(self._engine)

    @property
    def engine(self) -> Engine:
        return self._engine

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that may write; committed at the end, or rolled back by an exception."""
        with self._writer.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection to read from. In PostgreSQL each statement sees what is committed when it begins."""
        with self._reader.connect() as connection:
            yield connection

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A connection to read much from: every statement sees what was committed when the first one began."""
        level = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        with self._engine.connect() as connection:
            yield connection.execution_options(**level)

    @contextlib.contextmanager
    def locked(self, what: int = 0) -> Iterator[None]:
        """Hold, in PostgreSQL, a lock that one process has at a time; in SQLite there is one file and one writer."""
        if self.is_sqlite:
            yield
            return
        with self._reader.connect() as connection:
            key = {"key": _LOCK_KEY + what}
            connection.execute(text("SELECT pg_advisory_lock(:key)"), key)
            try:
                yield
            finally:
                connection.execute(text("SELECT pg_advisory_unlock(:key)"), key)

    def ping(self) -> None:
        """Raises:
        InputError: the database cannot be reached.
        """
        try:
            with self.read() as connection:
                connection.execute(text("SELECT 1"))
        except SQLAlchemyError as error:
            raise InputError(f"{self.place}: the database cannot be reached: {reason(error)}") from None

    @property
    def place(self) -> str:
        """Where the database is, for messages: without a password."""
        return self.url.database or "" if self.is_sqlite else self.url.render_as_string(hide_password=True)

    def close(self) -> None:
        self._engine.dispose()


def sqlite_url(path: Path) -> str:
    """Return the address of a database in a file."""
    return URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


def reason(error: SQLAlchemyError) -> str:
    """Return the first line of what the driver said."""
    said = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    return printable((said.strip() or type(error).__name__).splitlines()[0], 300)


def is_unreachable(error: SQLAlchemyError) -> bool:
    """Whether the database, and not the statement, is at fault."""
    return isinstance(error, OperationalError) or (isinstance(error, DBAPIError) and error.connection_invalidated)


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise UsageError(
            f"{printable(url, 60)!r} is not the address of a database; write postgresql://USER@HOST/NAME"
        ) from None
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg", password=parsed.password or _password())
    if parsed.drivername != "sqlite" or not parsed.database:
        raise UsageError(f"the database is {parsed.drivername!r}; it must be postgresql, or a file of SQLite")
    return parsed


def _password() -> str | None:
    path = os.environ.get(PASSWORD_VARIABLE)
    if not path:
        return None
    try:
        return Path(path).read_text().strip()
    except (OSError, ValueError) as error:
        raise InputError(f"{PASSWORD_VARIABLE}: {path}: cannot be read: {printable(error)}") from None


def _prepare_sqlite(engine: Engine) -> None:
    path = Path(str(engine.url.database))
    try:
        path.touch(mode=0o600)  # it has the digests of tokens and what is under embargo
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from None

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _: object) -> None:
        connection.isolation_level = None  # transactions begin as said below, and not by the driver's guess
        # FULL: what is acknowledged is on the disk. An answer to a submitter is worth 215 commits a second.
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        is_write = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_write else "BEGIN")
