"""A result on disk: logs, system description, claim and manifest, as they are. Reads; never repairs.

    <tree>/<submitter>/systems/<system>.json
    <tree>/<submitter>/results/<system>/<benchmark>/result_0.txt ..., predictions_0.npz ...,
                                                    submission.yaml, MANIFEST.sha256,
                                                    power/result_0/node_0.txt ..., power/idle/node_0.txt
    <tree>/<submitter>/benchmarks/<benchmark>/<module>.py      in the open division

`tta run` leaves a folder with result_<k>.txt, system.json and, with a module, code/<module>.py: a result that has not
been submitted yet.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.base import strict_json
from harness.base.files import MAX_HOLLOW_BYTES, MAX_SMALL_FILE_BYTES, Level, open_regular, sha256_of, small_file, walk
from harness.errors import LogError, SubmissionError, printable
from harness.findings import LogPlace
from harness.log import keys, power_files, run_log
from harness.log.events import TOKEN
from harness.log.repeated import repeated
from harness.log.run_log import RunLog
from harness.submission.claim import Claim, Envelope, FileEntry, Unreadable, read_claim, read_envelope, read_manifest
from harness.submission.layout import (
    BENCHMARKS,
    CLAIM_NAME,
    CODE_NAME,
    LOG_PATTERN,
    MANIFEST_NAME,
    NAME_PATTERN,
    OWN_FOLDERS,
    RESULT_PATTERN,
    RESULTS,
    SYSTEM_NAME,
    SYSTEMS,
    is_result_place,
    is_submitted,
    log_names,
    system_file,
)
from harness.submission.module import Module, parse_module
from harness.submission.predictions import Recomputed

MAX_FILES = 10_000
MAX_TREE_FILES = 1_000_000  # the published rounds have some 6,000 each
MAX_RESULT_BYTES = 4 << 30  # read in seconds; the largest published results have some 15 MB
MAX_TREE_BYTES = 64 << 30  # of the results that are read together
_NOT_A_FILE = {"link": "is a symbolic link", "other": "is a pipe, socket or device", "folder": "cannot be listed"}


@dataclass(frozen=True, slots=True)
class Result:
    """The runs of one benchmark on one system, and what is claimed about them.

    kind: "log" (a single log was named), "result" (a folder of runs), "submission" (it has a claim or a manifest).
    runs: the logs that could be read, by number. unreadable: the parts that could not.
    system: the system description as JSON; None if there is none. manifest: path -> SHA-256 as listed.
    files: what the folder really contains, by path relative to `path`; empty for a single log.
    num_nodes: as the system description says; None if there is none or it does not say.
    recomputed: the qualities of kept predictions, by the log's name, where a verb has computed them again.
    reevaluated: those of kept weights. receipt_faults: what the service that judges a result found wrong with its
    receipts, which it alone can see: a place each, and why.
    code_path: the folder of the modules. code: those modules that logs name and that exist, by name.
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
    code_path: Path | None = None
    code: Mapping[str, FileEntry] = field(default_factory=dict)
    unreadable: tuple[Unreadable, ...] = ()
    num_nodes: int | None = None
    envelope: Envelope = Envelope()  # noqa: RUF009  (frozen)
    recomputed: Mapping[str, Recomputed] = field(default_factory=dict)
    reevaluated: Mapping[str, Recomputed] = field(default_factory=dict)
    receipt_faults: tuple[tuple[str, str], ...] = ()

    @property
    def runs_digest(self) -> str:
        """SHA-256 of the sorted digests of the logs, a line each: names a result, wherever its folder is."""
        return hashlib.sha256("".join(sorted(f"{log.sha256}\n" for log in self.runs)).encode()).hexdigest()

    @property
    def repeats(self) -> str | None:
        """The digest of the result that all runs say alike that they repeat; None where there is none."""
        try:
            return repeated(self.runs)
        except ValueError:
            return None

    @property
    def benchmark(self) -> str | None:
        """The first benchmark that a log names."""
        values = (log.value("submission_benchmark") for log in self.runs)
        return next((value for value in values if isinstance(value, str)), None)

    @property
    def log_places(self) -> tuple[LogPlace, ...]:
        """The log that was named, or the files called like logs in the folder and below it, as far as they are read."""
        if self.kind == "log":
            return tuple(LogPlace(str(self.path), str(log.path), log.sha256, self.benchmark) for log in self.runs)
        benchmark = self.benchmark
        return tuple(
            LogPlace(str(self.path), str(self.path / name), entry.sha256, benchmark)
            for name, entry in self.files.items()
            if entry.sha256 is not None and LOG_PATTERN.fullmatch(name.rpartition("/")[2])
        )

    def run_number(self, log: RunLog) -> int | None:
        match = RESULT_PATTERN.fullmatch(log.path.name)
        return int(match.group(1)) if match else None


def find_results(path: Path) -> list[Path]:
    """Return the results at or below `path`: the log itself, or every folder with result_<k>.txt or a claim in it.

    A folder whose logs have other names that MLPerf permits, result_<anything>.txt, is a result in MLPerf's place,
    results/<system>/<benchmark>; elsewhere each log is a result of its own and hides nothing below its folder. A folder
    in that place without logs is one, too, unless a result is below it: removing all logs does not make a result
    disappear. In a submitter's folder, which has results/ and systems/, only results/ and the folders of other
    submitters are searched. Symbolic links are not followed. A folder directly in `path` with more files or folders
    below it than a tree may have counts as a result, one that cannot be read.

    Raises:
        SubmissionError: `path` does not exist, there is no result below it, or it has too many files or folders itself.
    """
    if not path.exists():
        raise SubmissionError(f"{path}: there is no such file or folder")
    found = results_below(path) if path.is_dir() else [path]
    if not found:
        raise SubmissionError(f"{path}: there is no result (no result_<k>.txt in it or below it)")
    return found


def results_below(folder: Path) -> list[Path]:
    """Return what `find_results` does for a folder; nothing if there is no result.

    Raises:
        SubmissionError: it has too many files or folders itself.
    """
    search = _Search()
    top = next(walk(folder, MAX_TREE_FILES, "tree"))
    search.at(top)
    for branch in (folder / name for name in top.folders):
        try:
            for level in walk(branch, MAX_TREE_FILES, "tree"):
                search.at(level)
        except SubmissionError:  # too many files or folders: `read_result` says so, and nothing else is lost
            search.found.append(branch)
    return search.results()


def beyond_limit(found: Iterable[Path]) -> dict[Path, SubmissionError]:
    """Return the largest of the results `found`, as many as are more than may be read together, with the error of each.

    One that is too large by itself is left to `read_result`, which does not read it.
    """
    sizes = [(size, path) for path in found if (size := _num_bytes(path)) <= MAX_RESULT_BYTES]
    total = sum(size for size, _ in sizes)
    refused = {}
    for size, path in sorted(sizes, reverse=True):
        if total <= MAX_TREE_BYTES:
            break
        total -= size
        refused[path] = SubmissionError(
            f"{path}: is not read: it is among the largest of results that have more than {MAX_TREE_BYTES:,} bytes "
            "together; name it by itself"
        )
    return refused


def _num_bytes(path: Path) -> int:
    """Return the size of the log, or of the files directly in the folder; power logs have a limit of their own."""
    num_bytes = 0
    with contextlib.suppress(OSError):
        for file in path.iterdir() if path.is_dir() else [path]:
            num_bytes += file.lstat().st_size
    return num_bytes


class _Search:
    """A search for results, level by level. found: results, regardless of what is below them.

    bare: folders in the place of a result that have no logs; each is a result, too, unless there is one below it.
    aside: folders next to a submitter's results/ and systems/; other submitters may be below, so only a folder in a
    result's place counts there.
    """

    def __init__(self) -> None:
        self.found: list[Path] = []
        self._bare: list[Path] = []
        self._aside: set[Path] = set()

    def results(self) -> list[Path]:
        """What was found, in the order of the walk: a folder comes before what is below it."""
        above = {parent for path in self.found for parent in path.absolute().parents}
        bare = [path for path in self._bare if path.absolute() not in above and is_submitted(path, above)]
        return sorted({*self.found, *bare}, key=lambda path: path.parts) if bare else self.found

    def at(self, level: Level) -> None:
        """Note the results that a level of a walk is or has, and leave those of its folders that may have others."""
        # Names of submitters and systems never begin with a dot; .git and staged submissions do.
        level.folders[:] = [name for name in level.folders if not name.startswith(".")]
        if {RESULTS, SYSTEMS} <= set(level.folders):
            level.folders[:] = [name for name in level.folders if name not in (SYSTEMS, BENCHMARKS)]
            self._aside |= {level.path / name for name in level.folders if name != RESULTS}
        is_place = is_result_place(level.path)
        if not is_place and not self._aside.isdisjoint((level.path, *level.path.parents)):
            return  # reference runs next to results/ are never results
        names = {*level.names, *level.folders}  # a folder named like a claim makes a result, too: a wrong one
        is_result = any(RESULT_PATTERN.fullmatch(name) for name in level.names)
        is_result = is_result or bool({CLAIM_NAME, MANIFEST_NAME} & names)
        foreign = log_names(level.names)
        if is_result or level.why is not None or (is_place and foreign):
            level.folders.clear()  # anything deeper belongs to this result
            self.found.append(level.path)  # a folder that cannot be listed is reported as unreadable
        elif foreign:  # which hide nothing: a log in a submitter's folder is not all of their results
            self.found += [level.path / name for name in foreign]
        elif is_place:
            level.folders[:] = [name for name in level.folders if name not in OWN_FOLDERS]
            self._bare.append(level.path)


def _has_line_of_log(path: Path) -> bool:
    """Whether a line begins with the token: a text about logs has the token in the middle of a line."""
    with path.open("rb") as stream:
        lines = iter(lambda: stream.readline(1 << 16), b"")
        return any(part.startswith(TOKEN.encode()) for line in lines for part in line.split(b"\r"))


def read_result(path: Path) -> Result:
    """Read the result at `path`, which is one of those that `find_results` returns.

    A part that cannot be read is listed in `unreadable`, so that one bad log does not hide the others.

    Raises:
        LogError: `path` is a single file that cannot be read, or is not a log.
        SubmissionError: the folder cannot be read, or has more than 10,000 files.
    """
    if path.is_symlink() and not path.is_dir():
        raise SubmissionError(f"{path}: is a symbolic link; a log must be a regular file")
    if not path.is_dir():
        log = power_files.with_power(run_log.read(path))
        if not log.counts and not _has_line_of_log(path):
            raise LogError(f"{path}: no line begins with {TOKEN.strip()!r}: not a run log")
        return Result(path=path, kind="log", runs=(log,), num_nodes=_num_nodes(path.absolute().parent, None))
    unreadable: list[Unreadable] = []
    files = _files(path)
    logs = [name for name in log_names(files) if files[name].kind == "file"]
    runs: list[RunLog] = []
    budget = power_files.Budget()
    idle = power_files.read_nodes(path / power_files.POWER_FOLDER / power_files.IDLE_FOLDER, budget)
    for name in sorted(logs, key=lambda name: not RESULT_PATTERN.fullmatch(name)):
        if not (RESULT_PATTERN.fullmatch(name) or (is_result_place(path) and all(log.is_foreign for log in runs))):
            continue  # next to tta's own logs it is a file without use
        try:
            runs.append(power_files.with_power(run_log.read(path / name), budget, idle))
        except LogError as error:
            unreadable.append(Unreadable(path / name, str(error).removeprefix(f"{path / name}: ")))
    read = {log.path.name: FileEntry("file", log.num_bytes, log.sha256) for log in runs}
    files |= {name: read[name] if name in read else _entry(path / name) for name in logs}
    manifest, manifest_lines = read_manifest(path / MANIFEST_NAME, unreadable)
    claim = read_claim(path / CLAIM_NAME, unreadable) if CLAIM_NAME in files else None
    is_placed = (claim is None and CLAIM_NAME in files) or all(log.is_foreign for log in runs)
    system_path = _system_path(path, claim, is_placed)
    system, system_sha256 = _read_system(system_path, unreadable)
    code_path = _code_path(path, claim)
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
        code_path=code_path,
        code=_code(code_path, runs),
        unreadable=tuple(unreadable),
        num_nodes=_num_nodes(path.absolute(), system),
        envelope=read_envelope(path, files),
    )


def _files(folder: Path) -> dict[str, FileEntry]:
    """Return everything below `folder` by relative path; files with their digest, except logs. Follows no links."""
    entries: dict[str, FileEntry] = {}
    num_bytes = 0
    for level in walk(folder, MAX_FILES, "result"):
        if level.why is not None:
            if level.path == folder:
                raise SubmissionError(f"{folder}: cannot be listed: {level.why}")
            entries[level.path.relative_to(folder).as_posix()] = FileEntry("folder", 0, None)
        for name in level.names:
            is_log = level.path == folder and LOG_PATTERN.fullmatch(name)  # digested when it is read
            entry = _entry(level.path / name, -1 if is_log else MAX_RESULT_BYTES - num_bytes)
            num_bytes += entry.num_bytes
            if num_bytes > MAX_RESULT_BYTES:
                raise SubmissionError(f"{folder}: more than {MAX_RESULT_BYTES:,} bytes; no result is that large")
            entries[(level.path / name).relative_to(folder).as_posix()] = entry
    return dict(sorted(entries.items()))


def _entry(place: Path, max_bytes: int = MAX_RESULT_BYTES) -> FileEntry:
    """Return the entry at `place`; one that is unreadable, gone, sparse, or larger than `max_bytes` has no digest."""
    try:
        status = place.lstat()
        if stat.S_ISLNK(status.st_mode):
            return FileEntry("link", 0, None)
        if not stat.S_ISREG(status.st_mode):
            return FileEntry("other", 0, None)
    except OSError:
        return FileEntry("file", 0, None)
    try:
        if status.st_size > MAX_HOLLOW_BYTES:
            open_regular(place).close()  # unless it is mostly holes
        return FileEntry("file", status.st_size, sha256_of(place) if status.st_size <= max_bytes else None)
    except (OSError, LogError):
        return FileEntry("file", status.st_size, None)


def named_module(log: RunLog) -> Module | None:
    """Return the module that a log was run with; None if it names none, or something that cannot be one."""
    try:
        return parse_module(log.field(keys.TTA_CONFIG, "module"))
    except ValueError:
        return None


def _code_path(path: Path, claim: Claim | None) -> Path:
    """Return benchmarks/<benchmark> of the submitter for a claimed result, otherwise code/ next to the logs."""
    if claim is not None and NAME_PATTERN.fullmatch(claim.benchmark) and len(path.absolute().parents) > 2:
        return path.absolute().parents[2] / BENCHMARKS / claim.benchmark
    return path / CODE_NAME


def _code(folder: Path, logs: list[RunLog]) -> dict[str, FileEntry]:
    """Return the modules that `logs` name, with their digests; a file too large to be one has none."""
    found: dict[str, FileEntry] = {}
    if folder.is_symlink() or (folder.parent.name == BENCHMARKS and folder.parent.is_symlink()):
        return found
    for name in sorted({module.name for log in logs if (module := named_module(log)) is not None}):
        try:
            status = (folder / name).lstat()
            kind = "file" if stat.S_ISREG(status.st_mode) else "link" if stat.S_ISLNK(status.st_mode) else "other"
            is_read = kind == "file" and status.st_size <= MAX_SMALL_FILE_BYTES
            found[name] = FileEntry(kind, status.st_size, sha256_of(folder / name) if is_read else None)
        except OSError:
            pass  # it does not exist
    return found


def _system_path(path: Path, claim: Claim | None, is_placed: bool) -> Path | None:
    """Return systems/<system>.json by the claim; else system.json next to the logs; else by the folders."""
    if claim is not None and NAME_PATTERN.fullmatch(claim.system) and len(path.absolute().parents) > 2:
        return path.absolute().parents[2] / SYSTEMS / f"{claim.system}.json"
    own = path / SYSTEM_NAME
    if own.exists() or not is_placed:
        return own if own.exists() else None
    return system_file(path)


def _num_nodes(folder: Path, system: Mapping[str, Any] | None) -> int | None:
    """Return number_of_nodes of the description; without a claim, of the one in MLPerf's place, too."""
    places = [folder / SYSTEM_NAME]
    if len(folder.parents) > 2:
        places.append(folder.parents[2] / SYSTEMS / f"{folder.parent.name}.json")
    for place in places if system is None else ():
        system = system or _read_system(place, [])[0]
    text = str((system or {}).get("number_of_nodes"))  # the text of anything else is not a number
    return int(text) if re.fullmatch("[1-9][0-9]{0,5}", text) else None


def _read_system(path: Path | None, unreadable: list[Unreadable]) -> tuple[dict[str, Any] | None, str | None]:
    if path is None or not path.exists():
        return None, None
    try:
        record = strict_json.loads(data := small_file(path))
    except (SubmissionError, ValueError) as error:
        why = str(error).removeprefix(f"{path}: ")
        unreadable.append(Unreadable(path, f"is not a readable system description: {printable(why)}"))
        return None, None
    if not isinstance(record, dict):
        unreadable.append(Unreadable(path, "the system description is not a JSON object"))
        return None, None
    return record, hashlib.sha256(data).hexdigest()


def unreadable_parts(result: Result) -> Iterator[Unreadable]:
    """Yield what could not be read, and what has a log's name but is not a file."""
    yield from result.unreadable
    for name, entry in result.files.items():
        if RESULT_PATTERN.fullmatch(name) and entry.kind in _NOT_A_FILE:
            yield Unreadable(result.path / name, _NOT_A_FILE[entry.kind])


def require_runs(result: Result) -> None:
    """Check that at least one run log of the result could be read.

    Raises:
        SubmissionError: there is none.
    """
    if not result.runs:
        raise SubmissionError(f"{result.path}: no run log (result_<k>.txt) in it can be read")
