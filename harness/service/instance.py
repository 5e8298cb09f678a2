"""A service's folder: settings, key, database, files. One object that every request and every job is given.

DATA/board.yaml           settings
     board.sqlite         the database, unless the settings name another
     blobs/               every file that was handed in, by digest
     uploads/             what is arriving in several requests
     checkpoint_key       signs the log's checkpoints and receipts; .pub is for everybody
     public/              the static export
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Hashable
from pathlib import Path

from harness.base.files import write_new
from harness.base.ids import new_id
from harness.errors import OutputError, UsageError
from harness.ruleset import catalog, load
from harness.ruleset.model import RuleSet
from harness.service import editions
from harness.service.blobs import BlobStore
from harness.service.database import Database, sqlite_url
from harness.service.settings import NAME, Settings, read_settings
from harness.service.signing import SigningKey

DATABASE_VARIABLE = "TTA_BOARD_DATABASE"  # overrides the settings: a password does not belong into a file of settings


def wall_ms() -> int:
    """Return the time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Instance:
    """A service. now_ms: the time; tests have their own.

    Raises:
        UsageError: the folder is none of a service. InputError: its settings or its key cannot be read.
    """

    def __init__(self, folder: Path, now_ms: Callable[[], int] = wall_ms, database: str | None = None) -> None:
        if not (folder / NAME).is_file():
            raise UsageError(f"{folder}: is not the folder of a board (no {NAME}); `tta board init {folder}` makes one")
        self.folder = folder
        self.now_ms = now_ms
        self.settings: Settings = read_settings(folder / NAME)
        self.key = SigningKey.read(folder)
        address = database or os.environ.get(DATABASE_VARIABLE) or self.settings.database
        self.database = Database(address or sqlite_url(folder / "board.sqlite"))
        self.blobs = BlobStore(folder / "blobs")
        self.uploads = folder / "uploads"
        self.kept = editions.Kept()

    def new_id(self) -> str:
        return new_id(self.now_ms())

    @functools.cache  # noqa: B019  (one instance a process)
    def ruleset(self, name: str) -> RuleSet:
        """Return a ruleset that this service has.

        Raises:
            UsageError: it is none of the settings'. RulesError: it cannot be read.
        """
        if name not in self.settings.rulesets:
            raise UsageError(f"this board has no ruleset {name!r}; it has: {', '.join(self.settings.rulesets)}")
        return load.load_ruleset(catalog.ruleset_folder(name), name)

    def of_edition(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return what `make` returns, which depends on the key and on what everybody sees of the tables alone."""
        with self.database.read() as connection:
            edition = editions.newest(connection)
        return self.kept.get(edition, key, make)

    def part_of_edition(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return the same for what is made of an edition just now: its number was asked for, and is not again."""
        return self.kept.get(0, key, make)

    def close(self) -> None:
        self.database.close()


def create_folder(folder: Path, origin: str, url: str, database: str = "") -> None:
    """Make the folder of a new service; its database is made by the first migration.

    Raises:
        OutputError: there is one already, or it cannot be written.
    """
    chosen = {"origin": origin, "url": url, **({"database": database} if database else {})}
    settings = "".join(f"{name}: {json.dumps(value)}\n" for name, value in chosen.items())
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_new(folder / NAME, settings.encode(), "there is a board in this folder already")
        read_settings(folder / NAME)
        BlobStore(folder / "blobs").create()
        (folder / "uploads").mkdir(exist_ok=True, mode=0o700)
    except OSError as error:
        raise OutputError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    SigningKey.create(folder)
