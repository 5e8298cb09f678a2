"""Walks a folder that somebody sent: links are not followed, and neither depth nor number can exhaust anything."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import SubmissionError

MAX_FOLDERS = 100_000  # 30 submitters with 100 results each have some 10,000


@dataclass(frozen=True, slots=True)
class Level:
    """One folder. `folders` may be shortened by who walks, before the next level: what is taken out is not entered.

    names: everything in it that is no folder, links to folders among it; sorted. why: it could not be listed, and why.
    """

    path: Path
    folders: list[str]
    names: list[str]
    why: str | None = None


def walk(top: Path, max_names: int, what: str) -> Iterator[Level]:
    """Every folder from `top` downwards, sorted.

    os.walk calls itself, and a thousand folders in each other end it; it passes over what it may not list, too.

    Raises:
        SubmissionError: there are more than `max_names` names, or 100,000 folders; `what` has no so many.
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


MAX_SMALL_FILE_BYTES = 1 << 20


def sha256_of(path: Path) -> str:
    """SHA-256 of the bytes of a regular file, as many as it had when it was opened.

    Raises OSError where it cannot be read.
    """
    digest = hashlib.sha256()
    # Not to wait for a pipe that has taken its place, nor for the end of one that grows.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:
        left = os.fstat(stream.fileno()).st_size
        while piece := stream.read(min(left, 1 << 20)):
            digest.update(piece)
            left -= len(piece)
    return digest.hexdigest()


def small_file(path: Path, max_bytes: int = MAX_SMALL_FILE_BYTES) -> bytes:
    """The bytes of a regular file of at most `max_bytes`.

    Raises:
        SubmissionError: it is no such file.
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
    """The line on which the field `name` begins in a small JSON or YAML file; None where it cannot be found."""
    try:
        text = small_file(path).decode("utf-8")
    except (SubmissionError, UnicodeDecodeError):
        return None
    # Possessive: a line may be a megabyte of blanks.
    field = re.compile(rf'[\s{{,]*+(?:"{re.escape(name)}"|{re.escape(name)})\s*:')
    return next((number for number, line in enumerate(text.splitlines(), 1) if field.match(line)), None)
