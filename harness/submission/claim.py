"""The small files of a submission: claim and manifest, and how files are read that somebody sends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.base.files import small_file
from harness.errors import SubmissionError, printable

CLAIM_NAME = "submission.yaml"
MANIFEST_NAME = "MANIFEST.sha256"
SIGNATURE_NAME = f"{MANIFEST_NAME}.sig"
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
