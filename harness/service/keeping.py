"""Backups: the database first, then the files, which are only ever added; and what is made of them again."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from sqlalchemy import make_url, text

from harness.base.files import sync_folder
from harness.errors import InputError, MissingDependencyError, OutputError, UsageError, printable
from harness.service import checkpoints, verifying
from harness.service.database import Database, sqlite_url
from harness.service.instance import Instance
from harness.service.settings import NAME
from harness.service.signing import KEY_NAME
from harness.transparency.checkpoint import parse_note

SQLITE_NAME, DUMP_NAME, CHECKPOINT_NAME = "board.sqlite", "board.dump", "checkpoint"
_DUMP_S = 3600


def back_up(instance: Instance, target: Path) -> int:
    """Write a backup into a new folder; return how many files it has. The service may run meanwhile.

    The key is in it: whoever has the backup can sign in the service's name.

    Raises:
        OutputError: the folder exists, or cannot be written. MissingDependencyError: there is no pg_dump.
    """
    if target.exists():
        raise OutputError(f"{target}: exists already; a backup is a new folder")
    draft = target.with_name(f".{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True, mode=0o700)
        (draft / CHECKPOINT_NAME).write_text(checkpoints.newest(instance).note)
        if instance.database.is_sqlite:
            with instance.database.engine.connect() as connection:
                raw = connection.connection.driver_connection
                assert raw is not None
                raw.execute("VACUUM INTO ?", (str(draft / SQLITE_NAME),))
        else:
            _pg("pg_dump", instance.database, "--format=custom", "--file", str(draft / DUMP_NAME))
        count = _copy(instance.blobs.folder, draft / "blobs", is_linked=True)
        for name in (NAME, KEY_NAME, f"{KEY_NAME}.pub"):
            shutil.copy2(instance.folder / name, draft / name)
        sync_folder(draft)
        draft.rename(target)
    except OSError as error:
        raise OutputError(f"{error.filename or target}: cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return count


def _copy(source: Path, target: Path, *, is_linked: bool) -> int:
    """Copy the files of a store of blobs; as links where the file system permits it: they never change."""
    count = 0
    (target / "incoming").mkdir(parents=True, mode=0o700)
    for folder in sorted(path for path in source.iterdir() if path.is_dir() and len(path.name) == 2):
        (target / folder.name).mkdir(mode=0o700)
        for path in sorted(folder.iterdir()):
            place = target / folder.name / path.name
            try:
                if not is_linked:
                    raise OSError
                os.link(path, place)
            except OSError:
                shutil.copy2(path, place)
            count += 1
    return count


def restore(backup: Path, folder: Path, database: str | None, newest: Path | None) -> list[str]:
    """Make a service of a backup, in a new folder; return what is wrong with its log, checkpoints, files and states.

    What is derived is as it was backed up: to make it again takes longer by far, and can be done while it is served.

    database: an empty one of PostgreSQL, for a backup of one. newest: the newest checkpoint that anybody has seen. If
    it is of more events than the backup, what was acknowledged since is lost, and a log that goes on from here
    contradicts it: the service must then go on under another name.

    Raises:
        UsageError: it is no backup. OutputError: the folder exists or cannot be written.
        InputError: the newest checkpoint is of more events than the backup has.
    """
    if not (backup / NAME).is_file() or not (backup / CHECKPOINT_NAME).is_file():
        raise UsageError(f"{backup}: is not a backup (no {NAME} or no {CHECKPOINT_NAME})")
    if folder.exists():
        raise OutputError(f"{folder}: exists already; restore into a new folder")
    own = parse_note((backup / CHECKPOINT_NAME).read_bytes(), str(backup / CHECKPOINT_NAME)).checkpoint
    if newest is not None:
        seen = parse_note(newest.read_bytes(), str(newest)).checkpoint
        if seen.origin == own.origin and seen.size > own.size:
            raise InputError(
                f"{newest}: is of {seen.size:,} events, the backup's checkpoint of {own.size:,}: going on under the "
                f"name {own.origin} would show two histories; change `origin` in {backup / NAME} to a new name first"
            )
    try:
        folder.mkdir(parents=True, mode=0o700)
        for name in (NAME, KEY_NAME, f"{KEY_NAME}.pub"):
            shutil.copy2(backup / name, folder / name)
        _copy(backup / "blobs", folder / "blobs", is_linked=False)
        (folder / "uploads").mkdir(mode=0o700)
        if (backup / SQLITE_NAME).is_file():
            shutil.copyfile(backup / SQLITE_NAME, folder / SQLITE_NAME)
            (folder / SQLITE_NAME).chmod(0o600)
    except OSError as error:
        raise OutputError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    if (backup / DUMP_NAME).is_file():
        if database is None:
            raise UsageError(f"{backup}: is of a PostgreSQL database; name an empty one with --database")
        target = Database(database)
        _pg("pg_restore", target, "--no-owner", "--exit-on-error", str(backup / DUMP_NAME))
        target.close()
    instance = Instance(folder, database=database or sqlite_url(folder / SQLITE_NAME))
    try:
        with instance.database.write() as connection:  # what workers had when the backup was made is done again
            connection.execute(text("UPDATE job SET state = 'ready', lease_owner = NULL WHERE state = 'leased'"))
        return list(verifying.faults(instance, is_judged=False))
    finally:
        instance.close()


def _pg(program: str, database: Database, *arguments: str) -> None:
    """Run a program of PostgreSQL on a database. The password, if there is one, is not on the command line."""
    path = shutil.which(program)
    if path is None:
        raise MissingDependencyError(f"this needs {program}, which is not installed (Debian: postgresql-client)")
    url = make_url(database.url).set(drivername="postgresql")
    environment = {**os.environ, **({"PGPASSWORD": str(url.password)} if url.password else {})}
    address = url.set(password=None).render_as_string(hide_password=False)
    command = [path, "--dbname", address, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_DUMP_S, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise OutputError(f"{database.place}: {program}: {printable(said, 500)}")
