"""Reads untrusted folders and small files: links are not followed, and depth, number and size are bounded."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from harness.errors import LogError, OutputError, SubmissionError, printable

MAX_FOLDERS = 100_000  # 30 submitters with 100 results each have about 10,000


@dataclass(frozen=True, slots=True)
class Level:
    """One folder of a walk. The caller may remove entries of `folders` before it asks for the next level: those are
    not entered.

    names: everything else in it, links to folders included; sorted. why: the reason if it could not be listed.
    """

    path: Path
    folders: list[str]
    names: list[str]
    why: str | None = None


def walk(top: Path, max_names: int, what: str) -> Iterator[Level]:
    """Yield every folder from `top` downwards, sorted. what: the kind of folder, for the message.

    os.walk is recursive, so that a thousand nested folders end it, and it silently skips what it cannot list.

    Raises:
        SubmissionError: there are more than `max_names` files or 100,000 folders.
    """
    waiting, num_names, num_folders = [top], 0, 1
    while waiting:
        path = waiting.pop()
        folders: list[str] = []
        names: list[str] = []
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    (folders if is_folder else names).append(entry.name)
                    num_names += not is_folder
                    num_folders += is_folder
                    if num_names > max_names:
                        raise SubmissionError(f"{top}: more than {max_names:,} files; no {what} has as many")
                    if num_folders > MAX_FOLDERS:
                        raise SubmissionError(f"{top}: more than {MAX_FOLDERS:,} folders; no {what} has as many")
        except OSError as error:
            yield Level(path, [], [], error.strerror or type(error).__name__)
            continue
        level = Level(path, sorted(folders), sorted(names))
        yield level
        waiting += [path / name for name in reversed(level.folders)]


def write_new(path: Path, data: bytes, exists: str = "exists already") -> None:
    """Write a file whole or not at all, and make its folders; what is there already is never replaced.

    exists: the message if something is there.

    Raises:
        OutputError: `path` exists, or cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:  # a file in place of a folder, too
        raise OutputError(f"{printable(path, 1000)}: its folder cannot be made: {error.strerror}") from None
    try:
        try:
            with draft.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.link(draft, path)  # unlike a rename, a link never replaces what is there
        finally:
            draft.unlink(missing_ok=True)
    except FileExistsError:
        raise OutputError(f"{printable(path, 1000)}: {exists}") from None
    except OSError as error:
        raise OutputError(f"{printable(path, 1000)}: cannot be written: {error.strerror}") from None


MAX_SMALL_FILE_BYTES = 1 << 20


MAX_HOLLOW_BYTES = 16 << 20  # smaller files are read whatever they are
_MAX_HOLES = 1_000


def open_regular(path: Path, buffering: int = -1) -> BinaryIO:
    """Open a regular file for reading, following links. Neither a pipe nor a device in its place is waited for.

    Raises:
        LogError: the file is missing, is not a regular file, is mostly holes, or cannot be opened.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error.strerror}") from None
    status = os.fstat(fd)
    why = "is not a regular file" if not stat.S_ISREG(status.st_mode) else ""
    if not why and _is_hollow(fd, status.st_size):
        why = f"is a sparse file: most of its {status.st_size:,} bytes were never written"
    if why:
        os.close(fd)  # fdopen raises for a folder and would leave it open
        raise LogError(f"{path}: {why}")
    return os.fdopen(fd, "rb", buffering=buffering)


def _is_hollow(fd: int, num_bytes: int) -> bool:
    """Whether a large file is mostly holes, or has more than a thousand of them: no program writes a log like that.

    The file system is asked where the data are, not how many blocks it needs for them: compression and shared blocks
    make few blocks of many data. One that cannot tell has no holes.
    """
    if num_bytes <= MAX_HOLLOW_BYTES:
        return False
    at = num_data = num_holes = 0
    try:
        while at < num_bytes and num_holes <= _MAX_HOLES:
            start = os.lseek(fd, at, os.SEEK_DATA)
            at = os.lseek(fd, start, os.SEEK_HOLE)
            num_data += at - start
            num_holes += 1
    except OSError as error:
        if error.errno != errno.ENXIO:  # the rest of the file is a hole
            return False
    os.lseek(fd, 0, os.SEEK_SET)
    return num_holes > _MAX_HOLES or 2 * num_data < num_bytes


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a regular file's bytes, as many as it had when it was opened.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    # Neither a pipe in its place nor a file that keeps growing may hold the reader up.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:
        left = os.fstat(stream.fileno()).st_size
        while piece := stream.read(min(left, 1 << 20)):
            digest.update(piece)
            left -= len(piece)
    return digest.hexdigest()


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def small_file(path: Path, max_bytes: int = MAX_SMALL_FILE_BYTES) -> bytes:
    """Return the bytes of a regular file of at most `max_bytes`.

    Raises:
        SubmissionError: it is not a regular file, is too large, or cannot be read.
    """
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise SubmissionError(f"{path}: is not a regular file")
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as stream:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise SubmissionError(f"{path}: is not a regular file")
            data = stream.read(max_bytes + 1)
    except OSError as error:
        raise SubmissionError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > max_bytes:
        num_bytes = max(status.st_size, len(data))
        raise SubmissionError(f"{path}: has {num_bytes:,} bytes; at most {max_bytes:,} are read")
    return data


def line_of(path: Path, name: str) -> int | None:
    """Return the line on which the field `name` begins in a small JSON or YAML file; None if it is not found."""
    try:
        text = small_file(path).decode("utf-8")
    except (SubmissionError, UnicodeDecodeError):
        return None
    # Possessive, since a line may be a megabyte of blanks.
    field = re.compile(rf'[\s{{,]*+(?:"{re.escape(name)}"|{re.escape(name)})\s*:')
    return next((number for number, line in enumerate(text.splitlines(), 1) if field.match(line)), None)
