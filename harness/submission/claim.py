"""What a submitter claims: the small files of a submission, `submission.yaml`, the manifest and `scaling.json`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.base import strict_json
from harness.base.files import small_file
from harness.base.values import is_number
from harness.errors import SubmissionError, printable
from harness.submission.layout import MANIFEST_NAME, SIGNATURE_NAME

FACTOR_NAME = "scaling_factor"  # in scaling.json
_MAX_CLAIM_BYTES = 1 << 16  # it has ten lines; a megabyte of YAML takes eight seconds
_OPTIONAL = {"notes", "weights_at"}
_MAX_FAULTS = 100  # of one manifest; a megabyte could have half a million


@dataclass(frozen=True, slots=True)
class Claim:
    """What a submitter claims about a result in `submission.yaml`."""

    submitter: str
    system: str
    benchmark: str
    division: str
    category: str  # "available", "preview" or "research"
    ruleset: str
    system_sha256: str
    submitted: str  # a date, YYYY-MM-DD
    notes: str = ""
    weights_at: str = ""  # the address of a folder with the weights that are too large for a submission

    def record(self) -> dict[str, str]:
        """The lines of the file; without `weights_at` if there are none."""
        return {name: value for name, value in asdict(self).items() if value or name != "weights_at"}


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One entry below a result's folder. sha256 is None unless it is a regular file; `kind` says what it is."""

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
    """A manifest and the signature over it, as bytes; None if absent. why: why the signature cannot be read."""

    manifest: bytes | None = None
    signature: bytes | None = None
    why: str | None = None


def read_claim(path: Path, unreadable: list[Unreadable]) -> Claim | None:
    """Return the claim in `path`: flat `name: value` lines, parsed as safe YAML with every value a text.

    Problems are added to `unreadable`.
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
    problems += [f"{name!r} is missing" for name in sorted(names - _OPTIONAL - set(record))]
    problems += [f"{printable(name)!r} is not a text" for name, value in record.items() if not isinstance(value, str)]
    if len(problems) > 10:
        problems = [*problems[:10], f"and {len(problems) - 10:,} more problems"]
    if problems:
        unreadable.append(Unreadable(path, "; ".join(problems)))
        return None
    return Claim(**record)


def read_manifest(path: Path, unreadable: list[Unreadable]) -> tuple[dict[str, str] | None, dict[str, int]]:
    """Return the digests of a manifest by path, and the line of each; the lines are as sha256sum writes them.

    None if there is no manifest; problems are added to `unreadable`.
    """
    if not path.is_symlink() and not path.exists():
        return None, {}
    try:
        text = small_file(path).decode("utf-8")
    except (SubmissionError, UnicodeDecodeError) as error:
        unreadable.append(Unreadable(path, f"is not a readable manifest: {printable(error)}"))
        return None, {}
    listed: dict[str, str] = {}
    lines: dict[str, int] = {}
    num_faults = 0
    for number, line in enumerate(text.splitlines(), 1):
        match = re.fullmatch(r"([0-9a-f]{64})  (\S.*)", line)
        if match is None or match.group(2) in listed:
            why = "not `<sha256>  <path>`" if match is None else f"{printable(match.group(2))!r} is listed twice"
            num_faults += 1
            if num_faults <= _MAX_FAULTS:
                unreadable.append(Unreadable(path, f"line {number}: {why}"))
            continue
        listed[match.group(2)] = match.group(1)
        lines[match.group(2)] = number
    if num_faults > _MAX_FAULTS:
        unreadable.append(Unreadable(path, f"and {num_faults - _MAX_FAULTS:,} more such lines"))
    return listed, lines


def read_envelope(folder: Path, files: Mapping[str, FileEntry]) -> Envelope:
    """Return the manifest and the signature in `folder`, which contains `files`."""
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
    """Return a manifest over `files`, sorted by path; it lists neither itself nor its signature."""
    excluded = (MANIFEST_NAME, SIGNATURE_NAME)
    return digest_lines({name: entry.sha256 for name, entry in files.items() if name not in excluded})


def digest_lines(digests: Mapping[str, str | None]) -> str:
    """Return digests by name as lines, sorted by name, as sha256sum writes them."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))


def claimed_factor(path: Path) -> tuple[float | None, str]:
    """Return the factor that a scaling.json claims; None, and why, if it has none."""
    try:
        record = strict_json.loads(small_file(path))
    except (SubmissionError, ValueError) as error:
        return None, printable(str(error).removeprefix(f"{path}: "))
    factor = record.get(FACTOR_NAME) if isinstance(record, dict) else None
    if not is_number(factor):
        return None, f"{FACTOR_NAME} is not a number"
    return float(factor), ""


def excerpt(path: Path) -> str:
    """Return as much of a small file as fits into a message."""
    try:
        return printable(small_file(path).decode("utf-8", "replace").strip(), 60) or "empty"
    except SubmissionError:
        return "not readable"
