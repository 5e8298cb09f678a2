"""The small files of a submission: claim and manifest, and how files are read that somebody sends."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import SubmissionError, printable

CLAIM_NAME = "submission.yaml"
MANIFEST_NAME = "MANIFEST.sha256"
SIGNATURE_NAME = f"{MANIFEST_NAME}.sig"
MAX_SMALL_FILE_BYTES = 1 << 20
_MAX_CLAIM_BYTES = 1 << 16  # nine lines; a megabyte of YAML takes eight seconds
_MAX_FAULTS = 100  # of one manifest; a file of a megabyte could have half a million


@dataclass(frozen=True, slots=True)
class Claim:
    """What a submitter says of a result: `submission.yaml`."""

    submitter: str
    system: str
    benchmark: str
    division: str
    category: str  # "available", "preview" or "research"
    ruleset: str
    system_sha256: str
    submitted: str  # a date, YYYY-MM-DD
    notes: str = ""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One thing below a result's folder. sha256 is None for what is no regular file; `kind` says what it is."""

    kind: str  # "file", "link", "other", or "folder" for one that cannot be listed
    num_bytes: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A part of a result that could not be read, and why."""

    path: Path
    message: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """A manifest and the signature over it, as bytes; None for what is not there. why: the signature cannot be read."""

    manifest: bytes | None = None
    signature: bytes | None = None
    why: str | None = None


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


def read_claim(path: Path, unreadable: list[Unreadable]) -> Claim | None:
    """The claim in `path`: flat `name: value` lines, parsed as safe YAML with every value a text.

    What is wrong with it goes into `unreadable`.
    """
    from harness.base import strict_yaml  # PyYAML takes a while

    try:
        record = strict_yaml.texts(small_file(path, _MAX_CLAIM_BYTES))
    except (ValueError, SubmissionError) as error:
        unreadable.append(Unreadable(path, f"not YAML: {printable(str(error).partition(chr(10))[0])}"))
        return None
    names = set(Claim.__dataclass_fields__)
    if not isinstance(record, dict):
        unreadable.append(Unreadable(path, "must be a list of `name: value` lines"))
        return None
    problems = [f"unknown key {printable(name)!r}" for name in record if name not in names]
    problems += [f"{name!r} is missing" for name in sorted(names - {"notes"} - set(record))]
    problems += [f"{printable(name)!r} is not a text" for name, value in record.items() if not isinstance(value, str)]
    if len(problems) > 10:
        problems = [*problems[:10], f"and {len(problems) - 10:,} more of the kind"]
    if problems:
        unreadable.append(Unreadable(path, "; ".join(problems)))
        return None
    return Claim(**record)


def read_manifest(path: Path, unreadable: list[Unreadable]) -> tuple[dict[str, str] | None, dict[str, int]]:
    """`<sha256>  <path>` lines, as sha256sum writes them: digests by path, and the lines they stand on.

    None where there is no manifest; what is wrong with it goes into `unreadable`.
    """
    if not path.is_symlink() and not path.exists():
        return None, {}
    try:
        text = small_file(path).decode("utf-8")
    except (SubmissionError, UnicodeDecodeError) as error:
        unreadable.append(Unreadable(path, f"no manifest can be read from it: {printable(error)}"))
        return None, {}
    listed: dict[str, str] = {}
    lines: dict[str, int] = {}
    num_faults = 0
    for number, line in enumerate(text.splitlines(), 1):
        match = re.fullmatch(r"([0-9a-f]{64})  (\S.*)", line)
        if match is None or match.group(2) in listed:
            why = "not `<sha256>  <path>`" if match is None else f"{printable(match.group(2))!r} stands twice"
            num_faults += 1
            if num_faults <= _MAX_FAULTS:
                unreadable.append(Unreadable(path, f"line {number}: {why}"))
            continue
        listed[match.group(2)] = match.group(1)
        lines[match.group(2)] = number
    if num_faults > _MAX_FAULTS:
        unreadable.append(Unreadable(path, f"and {num_faults - _MAX_FAULTS:,} more lines that are none"))
    return listed, lines


def read_envelope(folder: Path, files: Mapping[str, FileEntry]) -> Envelope:
    """The manifest and the signature in `folder`, of those `files` that are there."""
    if SIGNATURE_NAME not in files:
        return Envelope()
    try:
        signature = small_file(folder / SIGNATURE_NAME)
    except SubmissionError as error:
        return Envelope(why=str(error).removeprefix(f"{folder / SIGNATURE_NAME}: "))
    try:
        return Envelope(small_file(folder / MANIFEST_NAME), signature)
    except SubmissionError:
        return Envelope(None, signature)


def manifest_text(files: Mapping[str, FileEntry]) -> str:
    """A manifest over `files`, sorted by path; the manifest and its signature are not in it."""
    beside = (MANIFEST_NAME, SIGNATURE_NAME)
    return "".join(f"{entry.sha256}  {name}\n" for name, entry in sorted(files.items()) if name not in beside)
