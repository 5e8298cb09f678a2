"""The small files of a submission: claim and manifest, and how files are read that somebody sends."""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import SubmissionError, printable

CLAIM_NAME = "submission.yaml"
MANIFEST_NAME = "MANIFEST.sha256"
MAX_SMALL_FILE_BYTES = 1 << 20


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

    kind: str  # "file", "link", "folder" or "other"
    num_bytes: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A part of a result that could not be read, and why."""

    path: Path
    message: str


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes.

    Raises OSError where it cannot be read.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def small_file(path: Path) -> bytes:
    """The bytes of a regular file of at most 1 MiB.

    Raises:
        SubmissionError: it is no such file.
    """
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise SubmissionError(f"{path}: is not a regular file")
        if status.st_size > MAX_SMALL_FILE_BYTES:
            raise SubmissionError(f"{path}: has {status.st_size:,} bytes; at most {MAX_SMALL_FILE_BYTES:,} are read")
        return path.read_bytes()
    except OSError as error:
        raise SubmissionError(f"{path}: cannot be read: {error.strerror}") from None


def line_of(path: Path, name: str) -> int | None:
    """The line on which the field `name` begins in a small JSON or YAML file; None where it cannot be found."""
    try:
        text = small_file(path).decode("utf-8")
    except (SubmissionError, UnicodeDecodeError):
        return None
    field = re.compile(rf'\s*[{{,]?\s*(?:"{re.escape(name)}"|{re.escape(name)})\s*:')
    return next((number for number, line in enumerate(text.splitlines(), 1) if field.match(line)), None)


def read_claim(path: Path, unreadable: list[Unreadable]) -> Claim | None:
    """The claim in `path`: flat `name: value` lines, parsed as safe YAML with every value a text.

    What is wrong with it goes into `unreadable`.
    """
    import yaml

    try:
        record = yaml.load(small_file(path), Loader=yaml.BaseLoader)  # noqa: S506  (BaseLoader: texts only)
    except (yaml.YAMLError, RecursionError, SubmissionError) as error:
        unreadable.append(Unreadable(path, f"not YAML: {printable(str(error).splitlines()[0])}"))
        return None
    names = set(Claim.__dataclass_fields__)
    if not isinstance(record, dict):
        unreadable.append(Unreadable(path, "must be a list of `name: value` lines"))
        return None
    problems = [f"unknown key {printable(name)!r}" for name in record if name not in names]
    problems += [f"{name!r} is missing" for name in sorted(names - {"notes"} - set(record))]
    problems += [f"{printable(name)!r} is not a text" for name, value in record.items() if not isinstance(value, str)]
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
    for number, line in enumerate(text.splitlines(), 1):
        match = re.fullmatch(r"([0-9a-f]{64})  (\S.*)", line)
        if match is None or match.group(2) in listed:
            why = "not `<sha256>  <path>`" if match is None else f"{printable(match.group(2))!r} stands twice"
            unreadable.append(Unreadable(path, f"line {number}: {why}"))
            continue
        listed[match.group(2)] = match.group(1)
        lines[match.group(2)] = number
    return listed, lines


def manifest_text(files: Mapping[str, FileEntry]) -> str:
    """A manifest over `files`, sorted by path; the manifest itself is not in it."""
    return "".join(f"{entry.sha256}  {name}\n" for name, entry in sorted(files.items()) if name != MANIFEST_NAME)
