"""A result on disk, as it is: logs, system description, claim and manifest. Reads; never repairs.

    <tree>/<submitter>/systems/<system>.json
    <tree>/<submitter>/results/<system>/<benchmark>/result_0.txt ..., submission.yaml, MANIFEST.sha256

`tta run` leaves a folder with result_<k>.txt and system.json, which is a result that nobody has claimed yet.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import runlog
from harness.errors import LogError, SubmissionError, printable
from harness.runlog import RunLog

CLAIM_NAME = "submission.yaml"
MANIFEST_NAME = "MANIFEST.sha256"
SYSTEM_NAME = "system.json"
RESULT_PATTERN = re.compile(r"result_(0|[1-9][0-9]{0,3})\.txt")
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")  # of submitters, systems and benchmarks
MAX_SMALL_FILE_BYTES = 1 << 20
MAX_FILES = 10_000


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


@dataclass(frozen=True, slots=True)
class Result:
    """The runs of one benchmark on one system, and what is said of them.

    kind: "log" (a single log was named), "result" (a folder of runs), "submission" (it has a claim or a manifest).
    runs: the logs that could be read, by number. unreadable: the parts that could not.
    system: the system description as JSON; None where there is none. manifest: path -> SHA-256 as listed.
    files: what is really there, by path relative to `path`; empty for a single log.
    """

    path: Path
    kind: str
    runs: tuple[RunLog, ...]
    system: Mapping[str, Any] | None = None
    system_path: Path | None = None
    system_sha256: str | None = None
    claim: Claim | None = None
    manifest: Mapping[str, str] | None = None
    manifest_lines: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, FileEntry] = field(default_factory=dict)
    unreadable: tuple[Unreadable, ...] = ()

    @property
    def benchmark(self) -> str | None:
        """The benchmark that the first log names."""
        for log in self.runs:
            value = log.value("submission_benchmark")
            if isinstance(value, str):
                return value
        return None

    def run_number(self, log: RunLog) -> int | None:
        match = RESULT_PATTERN.fullmatch(log.path.name)
        return int(match.group(1)) if match else None


def find_results(path: Path) -> list[Path]:
    """The results at or below `path`: the log itself, or every folder that has result_<k>.txt or a claim in it.

    Symbolic links are not followed.

    Raises:
        SubmissionError: there is nothing at `path`, or no result below it.
    """
    if not path.exists():
        raise SubmissionError(f"{path}: there is no such file or folder")
    if not path.is_dir():
        return [path]
    found = []
    for folder, subfolders, names in os.walk(path, followlinks=False):
        # A name of a submitter or system never begins with a dot; .git and half-made submissions do.
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        if any(RESULT_PATTERN.fullmatch(name) for name in names) or CLAIM_NAME in names or MANIFEST_NAME in names:
            found.append(Path(folder))
            subfolders.clear()  # what lies deeper belongs to this result
    if not found:
        raise SubmissionError(f"{path}: no result is here (no result_<k>.txt in it or below it)")
    return found


def read_result(path: Path) -> Result:
    """The result at `path`, one of those `find_results` names.

    A part that cannot be read is listed in `unreadable`, so that one bad log hides nothing of the others.

    Raises:
        LogError: `path` is a single log and cannot be read.
        SubmissionError: the folder cannot be read, or has more than 10,000 files.
    """
    if not path.is_dir():
        return Result(path=path, kind="log", runs=(runlog.read(path),))
    unreadable: list[Unreadable] = []
    files = _files(path)
    numbered = sorted(
        (int(match.group(1)), name)
        for name, entry in files.items()
        if (match := RESULT_PATTERN.fullmatch(name)) and entry.kind == "file"
    )
    runs = []
    for _, name in numbered:
        try:
            runs.append(runlog.read(path / name))
        except LogError as error:
            unreadable.append(Unreadable(path / name, str(error).removeprefix(f"{path / name}: ")))
    manifest, manifest_lines = _read_manifest(path / MANIFEST_NAME, unreadable)
    claim = read_claim(path / CLAIM_NAME, unreadable) if CLAIM_NAME in files else None
    system_path = _system_path(path, claim)
    system, system_sha256 = _read_system(system_path, unreadable)
    return Result(
        path=path,
        kind="submission" if {CLAIM_NAME, MANIFEST_NAME} & set(files) else "result",
        runs=tuple(runs),
        system=system,
        system_path=system_path,
        system_sha256=system_sha256,
        claim=claim,
        manifest=manifest,
        manifest_lines=manifest_lines,
        files=files,
        unreadable=tuple(unreadable),
    )


def _files(folder: Path) -> dict[str, FileEntry]:
    """Everything below `folder` by relative path, links not followed; files with their digest."""
    entries: dict[str, FileEntry] = {}
    for parent, subfolders, names in os.walk(folder, followlinks=False):
        subfolders.sort()
        for name in sorted([*names, *(sub for sub in subfolders if os.path.islink(os.path.join(parent, sub)))]):
            if len(entries) >= MAX_FILES:
                raise SubmissionError(f"{folder}: more than {MAX_FILES:,} files; no result has as many")
            place = Path(parent, name)
            status = place.lstat()
            relative = place.relative_to(folder).as_posix()
            if stat.S_ISLNK(status.st_mode):
                entries[relative] = FileEntry("link", 0, None)
            elif stat.S_ISREG(status.st_mode):
                try:
                    entries[relative] = FileEntry("file", status.st_size, sha256_of(place))
                except OSError:
                    entries[relative] = FileEntry("file", status.st_size, None)
            else:
                entries[relative] = FileEntry("other", 0, None)
    return entries


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes.

    Raises OSError where it cannot be read.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _system_path(path: Path, claim: Claim | None) -> Path | None:
    """systems/<system>.json of the submitter's folder for a claimed result; system.json beside the logs otherwise."""
    if claim is not None and NAME_PATTERN.fullmatch(claim.system) and len(path.absolute().parents) > 2:
        return path.absolute().parents[2] / "systems" / f"{claim.system}.json"
    beside = path / SYSTEM_NAME
    return beside if beside.exists() else None


def _read_system(path: Path | None, unreadable: list[Unreadable]) -> tuple[dict[str, Any] | None, str | None]:
    if path is None or not path.exists():
        return None, None
    try:
        data = small_file(path)
        record = json.loads(data)
    except (SubmissionError, ValueError, RecursionError) as error:
        unreadable.append(Unreadable(path, f"no system description can be read from it: {printable(error)}"))
        return None, None
    if not isinstance(record, dict):
        unreadable.append(Unreadable(path, "the system description is not a JSON object"))
        return None, None
    return record, hashlib.sha256(data).hexdigest()


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


def _read_manifest(path: Path, unreadable: list[Unreadable]) -> tuple[dict[str, str] | None, dict[str, int]]:
    """`<sha256>  <path>` lines, as sha256sum writes them."""
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
