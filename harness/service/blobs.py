"""Files by their digest: written whole or not at all, only ever added, never changed.

<folder>/ab/abcdef…       64 digits
<folder>/incoming/…       what is arriving
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sqlalchemy import Connection, Dialect, Insert, Table, func, select
from sqlalchemy.dialects import postgresql, sqlite

from harness.base.files import sync_folder
from harness.errors import InputError, OutputError
from harness.service import schema


class BlobStore:
    """The files of a service."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.incoming = folder / "incoming"

    def create(self) -> None:
        """Make the folders."""
        self.incoming.mkdir(parents=True, exist_ok=True, mode=0o700)

    def path(self, sha256: str) -> Path:
        """Return where the file with this digest is, or would be."""
        return self.folder / sha256[:2] / sha256

    def add(self, sha256: str, num_bytes: int, pieces: Iterable[bytes]) -> None:
        """Store a file; when this returns, it is on the disk. One that is there already is read and compared, too.

        Raises:
            InputError: it has another length or digest; nothing is kept. OutputError: it cannot be written.
        """
        draft = self.incoming / f"{sha256}.{secrets.token_hex(4)}"
        digest, found = hashlib.sha256(), 0
        try:
            with self._kept_or_removed(draft), draft.open("xb") as stream:
                for piece in pieces:
                    found += len(piece)
                    if found > num_bytes:
                        break
                    digest.update(piece)
                    stream.write(piece)
                if found != num_bytes or digest.hexdigest() != sha256:
                    raise InputError(_other(sha256, num_bytes, found, digest.hexdigest()))
                stream.flush()
                os.fsync(stream.fileno())
            self.adopt(draft, sha256)
        except OSError as error:
            raise OutputError(f"{error.filename or draft}: cannot be written: {error.strerror}") from None

    def adopt(self, draft: Path, sha256: str) -> None:
        """Move a file that is on the disk, and has this digest, to its place.

        Raises:
            OSError: it cannot be moved.
        """
        target = self.path(sha256)
        target.parent.mkdir(exist_ok=True, mode=0o700)
        draft.chmod(0o444)  # its folder is closed; an export of it is a link, which a web server reads
        draft.replace(target)
        sync_folder(target.parent)

    def matches(self, path: Path, sha256: str, num_bytes: int) -> str | None:
        """Return what is wrong with a file that should have this digest; None if nothing is."""
        digest, found = hashlib.sha256(), 0
        with path.open("rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
                found += len(piece)
        if found == num_bytes and digest.hexdigest() == sha256:
            return None
        return _other(sha256, num_bytes, found, digest.hexdigest())

    @contextlib.contextmanager
    def _kept_or_removed(self, draft: Path) -> Iterator[None]:
        try:
            yield
        except (InputError, OSError, GeneratorExit):
            draft.unlink(missing_ok=True)
            raise


def _other(sha256: str, num_bytes: int, found_bytes: int, found: str) -> str:
    if found_bytes != num_bytes:
        more = "more than " if found_bytes > num_bytes else ""
        return f"{sha256}: {more}{min(found_bytes, num_bytes):,} bytes arrived, {num_bytes:,} were announced"
    return f"{sha256}: the bytes that arrived have the digest {found}"


def unless_there(dialect: Dialect, table: Table) -> Insert:
    """Return an INSERT that leaves a row alone that is there already."""
    builder = sqlite.insert if dialect.name == "sqlite" else postgresql.insert
    return builder(table).on_conflict_do_nothing()


def note_held(connection: Connection, organisation: str, found: Sequence[tuple[str, int]], now_ms: int) -> None:
    """Note that an organisation has sent files, by digest and size, that are stored."""
    if not found:
        return
    dialect = connection.dialect
    rows = sorted(set(found))  # in one order everywhere, so that two transactions cannot wait for each other
    connection.execute(
        unless_there(dialect, schema.blob),
        [{"sha256": sha256, "num_bytes": num_bytes, "created_ms": now_ms} for sha256, num_bytes in rows],
    )
    connection.execute(
        unless_there(dialect, schema.blob_holder),
        [{"sha256": sha256, "organisation": organisation} for sha256, _ in rows],
    )


def held_bytes(connection: Connection, organisation: str) -> int:
    """Return how many bytes the files have that an organisation has sent."""
    blob, holder = schema.blob, schema.blob_holder
    query = select(func.coalesce(func.sum(blob.c.num_bytes), 0)).select_from(blob.join(holder))
    return int(connection.execute(query.where(holder.c.organisation == organisation)).scalar_one())


def held(connection: Connection, organisation: str, digests: Iterable[str]) -> set[str]:
    """Return which of these files an organisation has sent. What others have sent, it does not have."""
    table, names = schema.blob_holder, sorted(set(digests))
    found: set[str] = set()
    for at in range(0, len(names), 500):
        part = names[at : at + 500]
        query = select(table.c.sha256).where(table.c.organisation == organisation, table.c.sha256.in_(part))
        found.update(connection.execute(query).scalars())
    return found
