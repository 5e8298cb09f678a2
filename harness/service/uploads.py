"""Resumable uploads, as tus 1.0 has them: how much has arrived is the size of a file, so that nothing can disagree.

Source: tus resumable upload protocol 1.0.0, with the extensions creation, checksum, expiration and termination.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import delete, func, insert, select

from harness.errors import InputError, OutputError, UsageError
from harness.service import blobs, schema
from harness.service.instance import Instance
from harness.service.people import HOUR_MS, Actor
from harness.service.submissions import ConflictError, ForbiddenError, NotThereError
from harness.service.submitting import lock_quota, require_quota

_upload = schema.upload


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload. offset: how many bytes have arrived, and are on the disk."""

    id: str
    sha256: str
    num_bytes: int
    expires_ms: int
    offset: int


def create(instance: Instance, actor: Actor, sha256: str, num_bytes: int) -> Upload:
    """Begin an upload of a file with this digest, or go on with the one that the team has begun.

    Raises:
        UsageError: it is too large. ForbiddenError: the team has too many uploads, or no quota for it.
        InputError: all of it had arrived, with another digest; nothing is kept.
    """
    limits, now_ms = instance.settings.limits, instance.now_ms()
    if not 0 <= num_bytes <= limits.max_file_bytes:
        raise UsageError(f"{num_bytes:,} bytes; a file has at most {limits.max_file_bytes:,}")
    own = _upload.c.organisation == actor.organisation
    same = own & (_upload.c.sha256 == sha256) & (_upload.c.num_bytes == num_bytes) & (_upload.c.expires_ms > now_ms)
    with instance.database.write() as connection:
        quota = lock_quota(connection, instance, actor)
        found = connection.execute(select(_upload.c.id).where(same).limit(1)).scalar()
        if found is None:
            query = select(func.count(), func.coalesce(func.sum(_upload.c.num_bytes), 0)).where(own)
            count, total = connection.execute(query).one()
            if count >= limits.max_uploads:
                raise ForbiddenError(
                    f"{actor.organisation_name} has {count:,} uploads in progress; finish or remove one"
                )
            held = total + blobs.held_bytes(connection, actor.organisation)
            require_quota(actor, held, num_bytes, quota)
            found = instance.new_id()
            _path(instance, found).touch(mode=0o600)
            connection.execute(
                insert(_upload).values(
                    id=found, person=actor.person, organisation=actor.organisation, sha256=sha256, num_bytes=num_bytes,
                    created_ms=now_ms, expires_ms=now_ms + int(limits.upload_days * 24 * HOUR_MS),
                )
            )  # fmt: skip
    upload = find(instance, actor, found)
    complete_if_whole(instance, actor, upload)  # an empty file is; and one whose request was killed before its end
    return upload


def find(instance: Instance, actor: Actor, upload: str) -> Upload:
    """Return an upload of the actor's organisation.

    Raises:
        NotThereError: there is none, or it has ended or expired.
    """
    mine = (_upload.c.id == upload) & (_upload.c.organisation == actor.organisation)
    query = select(_upload.c.id, _upload.c.sha256, _upload.c.num_bytes, _upload.c.expires_ms)
    with instance.database.read() as connection:
        row = connection.execute(query.where(mine, _upload.c.expires_ms > instance.now_ms())).one_or_none()
    try:
        if row is not None:
            return Upload(*row, offset=_path(instance, row.id).stat().st_size)
    except FileNotFoundError:
        pass
    raise NotThereError("there is no such upload; it may have ended or expired")


class Piece:
    """A piece of an upload while it arrives. It is appended to the file, and taken off again if its digest is wrong.

    What arrives of one whose connection breaks off is kept: a piece of 16 MiB would never come over a link that is cut
    every 10. Whether all pieces together are right, the digest of the file says.

    checksum: of the piece, SHA-256, if the client says it.
    """

    def __init__(self, upload: Upload, stream: BinaryIO, checksum: bytes | None) -> None:
        self.upload, self._stream, self._checksum = upload, stream, checksum
        self._digest, self._received = hashlib.sha256(), 0

    def write(self, data: bytes) -> None:
        """Raises:
        UsageError: that is more than was announced. OutputError: the disk is full.
        """
        if self.upload.offset + self._received + len(data) > self.upload.num_bytes:
            raise UsageError(f"more than the {self.upload.num_bytes:,} bytes that were announced")
        try:
            self._stream.write(data)
        except OSError as error:
            raise OutputError(f"the upload cannot be written: {error.strerror}") from None
        self._digest.update(data)
        self._received += len(data)

    @property
    def is_as_said(self) -> bool:
        return self._checksum is None or self._checksum == self._digest.digest()

    @property
    def offset(self) -> int:
        return self.upload.offset + self._received


@contextlib.contextmanager
def _locked(instance: Instance, upload: Upload) -> Iterator[BinaryIO]:
    """Open an upload's file, which no other request has meanwhile.

    Raises:
        NotThereError: it has ended. ConflictError: another request has it.
    """
    path = _path(instance, upload.id)
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(path.open("r+b", buffering=0))
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.stat()  # it may have been completed between the two
        except FileNotFoundError:
            raise NotThereError("there is no such upload; it may have ended or expired") from None
        except BlockingIOError:
            raise ConflictError("another request is sending this upload") from None
        yield stream


@contextlib.contextmanager
def appending(instance: Instance, upload: Upload, offset: int, checksum: bytes | None) -> Iterator[Piece]:
    """Append a piece at `offset`; what has arrived is kept even if the connection breaks off.

    Raises:
        ConflictError: another request is writing it, or it has another size.
    """
    with _locked(instance, upload) as stream:
        size = stream.seek(0, os.SEEK_END)
        if size != offset:
            raise ConflictError(f"{size:,} bytes have arrived; go on there, not at {offset:,}")
        piece = Piece(Upload(upload.id, upload.sha256, upload.num_bytes, upload.expires_ms, size), stream, checksum)
        try:
            yield piece
            if not piece.is_as_said:
                stream.truncate(size)
        finally:
            os.fsync(stream.fileno())


def complete_if_whole(instance: Instance, actor: Actor, upload: Upload) -> None:
    """Keep an upload whose bytes have all arrived; one that another request has ended meanwhile is left alone.

    Raises:
        InputError: they have another digest; nothing is kept.
    """
    path = _path(instance, upload.id)
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        return
    with stream:
        if os.fstat(stream.fileno()).st_size == upload.num_bytes:
            fcntl.flock(stream, fcntl.LOCK_EX)  # another request may be taking a piece off, or doing the same
            if path.exists() and path.stat().st_size == upload.num_bytes:
                _complete(instance, actor, upload, path)


def _complete(instance: Instance, actor: Actor, upload: Upload, path: Path) -> None:
    fault = instance.blobs.matches(path, upload.sha256, upload.num_bytes)
    if fault is None:
        # The row goes last: after a crash in between, whoever asks how much has arrived finds it whole, and ends it.
        draft = instance.blobs.incoming / f"{upload.sha256}.{upload.id}"
        draft.unlink(missing_ok=True)
        os.link(path, draft)
        instance.blobs.adopt(draft, upload.sha256)
        draft.unlink(missing_ok=True)  # to rename one link of a file to another does nothing
    with instance.database.write() as connection:
        if fault is None:
            found = [(upload.sha256, upload.num_bytes)]
            blobs.note_held(connection, actor.organisation, found, instance.now_ms())
        connection.execute(delete(_upload).where(_upload.c.id == upload.id))
    path.unlink(missing_ok=True)
    if fault is not None:
        raise InputError(f"the upload is not kept: {fault}")


def remove(instance: Instance, actor: Actor, upload: str) -> None:
    """End an upload and forget what has arrived.

    Raises:
        NotThereError: there is none of this team.
    """
    found = find(instance, actor, upload)
    with instance.database.write() as connection:
        connection.execute(delete(_upload).where(_upload.c.id == found.id))
    _path(instance, found.id).unlink(missing_ok=True)


def expire(instance: Instance) -> int:
    """Remove what was not finished in time; return how many uploads that were."""
    now_ms = instance.now_ms()
    with instance.database.write() as connection:
        gone = connection.execute(delete(_upload).where(_upload.c.expires_ms <= now_ms).returning(_upload.c.id))
        found = list(gone.scalars())
    for upload in found:
        _path(instance, upload).unlink(missing_ok=True)
    return len(found)


def _path(instance: Instance, upload: str) -> Path:
    return instance.uploads / upload
