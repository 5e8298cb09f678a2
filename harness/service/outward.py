"""What a service has published, as files: the tree of results, and the log with its tiles.

    FOLDER/tree/        the published results that count, as in a shared folder; `tta board build` makes the site of it
           log/         checkpoint, events.jsonl (the public ones, opened), tile/… as C2SP has them
           site/        the pages

Anybody can offer a copy with a plain web server, check every result again, and verify the log.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import func, select

from harness.errors import OutputError
from harness.service import checkpoints, events, publication, schema
from harness.service.instance import Instance
from harness.service.states import PUBLIC, RANKED
from harness.service.submitting import ListedFile, files_of
from harness.transparency.tiles import WIDTH, tile_path, tile_width

TREE, LOG, SITE = "tree", "log", "site"
_STEP = 1000


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Wait until nobody else writes into a folder, and keep it so.

    Each worker has the service exported after a change, and an export goes on when its worker is killed.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("a")
    except OSError as error:
        raise OutputError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def export(instance: Instance, folder: Path) -> int:
    """Write tree and log into a folder, each in place of what was there; return the number of results.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        drafts = {name: folder / f".{name}.draft" for name in (TREE, LOG)}
        for draft in drafts.values():
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
        count = _write_tree(instance, drafts[TREE])
        _write_log(instance, drafts[LOG])
        for name, draft in drafts.items():
            old = folder / f".{name}.old"
            shutil.rmtree(old, ignore_errors=True)
            if (folder / name).exists():
                (folder / name).rename(old)
            draft.rename(folder / name)
            shutil.rmtree(old, ignore_errors=True)
        if not count:  # pages of what does not count any more
            shutil.rmtree(folder / SITE, ignore_errors=True)
    except OSError as error:
        raise OutputError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    return count


def mark(instance: Instance) -> tuple[int, int]:
    """Return what changes whenever what is public does: how many submissions are, and when one of them last changed."""
    table = schema.submission
    with instance.database.read() as connection:
        row = connection.execute(
            select(func.count(), func.max(table.c.changed_ms)).where(table.c.state.in_(PUBLIC))
        ).one()
    return int(row[0]), int(row[1] or 0)


def _write_tree(instance: Instance, tree: Path) -> int:
    """Link the files of what counts, the newest first: an older result of the same place gives way to it."""
    table = schema.submission
    with instance.database.snapshot() as connection:
        chosen = (
            connection.execute(
                select(table.c.id)
                .where(table.c.state.in_(RANKED), table.c.superseded_by.is_(None))
                .order_by(table.c.published_ms.desc(), table.c.id.desc())
            )
            .scalars()
            .all()
        )
        listed = [files_of(connection, submission) for submission in chosen]
    count = 0
    known: dict[str, str] = {}
    for files in listed:
        if all(known.get(item.path, item.sha256) == item.sha256 for item in files):
            count += 1
            for item in files:
                if item.path not in known:
                    known[item.path] = item.sha256
                    _link(instance, item, tree / item.path)
    return count


def _link(instance: Instance, item: ListedFile, target: Path) -> None:
    """Copy a blob: as a link, where it is on the same file system."""
    target.parent.mkdir(parents=True, exist_ok=True)
    source = instance.blobs.path(item.sha256)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _write_log(instance: Instance, folder: Path) -> None:
    note = checkpoints.newest(instance)
    size = note.checkpoint.size
    with instance.database.snapshot() as connection, (folder / "events.jsonl").open("w") as lines:
        start = 0
        while found := publication.public_openings(connection, start, _STEP):
            lines.writelines(json.dumps(item.record(), sort_keys=True) + "\n" for item in found)
            start = found[-1].seq + 1
        level = 0
        while size >> (8 * level):
            for number in range(-(-(size >> (8 * level)) // WIDTH)):
                width = tile_width(level, number, size)
                target = folder / tile_path(level, number, width)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(events.tile(connection, level, number, width))
            level += 1
    (folder / "checkpoint").write_text(note.note)
