"""Prepared data on disk: made once, verified by digest before every result, kept.

    <cache>/<workload>_<suite>/data/...        what the workload wrote
    <cache>/<workload>_<suite>/digests.json    size, time stamp and SHA-256 of each file
    <cache>/<workload>_<suite>/downloads/...   what the workload fetched (`data_dir.parent / "downloads"`); kept, also
                                               when preparing fails, so that the next attempt goes on from there
    <cache>/<workload>_<suite>/preparing-*     what is being prepared; tidied away by the next call if it was killed

The data set's digest is the SHA-256 over `<sha256>  <path>` lines sorted by path, so that `sha256sum`
can redo it. A file whose size and time stamp have not moved is not read again. A cache that cannot be written, a shared
one for example, is used for reading if it has the data; what cannot be noted in it is taken again each time.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import DataError, OutputError
from harness.submission.result import sha256_of
from harness.workload import Workload

METADATA_NAME = "metadata.json"


@dataclass(frozen=True, slots=True)
class DataSet:
    """A prepared data set. digest: SHA-256 over all files. metadata: what a workload may know beforehand."""

    path: Path
    digest: str
    num_files: int
    num_bytes: int
    metadata: dict[str, Any]


def default_cache() -> Path:
    """`$TTA_DATA`, else `tta` in the user's cache folder."""
    if place := os.environ.get("TTA_DATA"):
        return Path(place)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tta"


def prepare(workload: Workload, suite: str, cache: Path, source: Path | None = None) -> DataSet:
    """The data set of a suite, made now if it is not there.

    A preparation that fails leaves nothing behind but what was downloaded; two at the same time wait for each other.

    Raises:
        DataError: the data cannot be had, or what is there is damaged.
        OutputError: the cache cannot be written, and the data are not in it.
    """
    folder = cache / f"{workload.name}_{suite}"
    data = folder / "data"
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = (folder / "lock").open("w")
        except OSError:
            if not data.is_dir():
                raise
            return read(data, is_noted=False)  # complete, because it was renamed into its place
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in folder.glob("preparing-*"):  # of one that was killed: whoever holds the lock is alone here
                shutil.rmtree(left, ignore_errors=True)
            if not data.is_dir():
                temporary = Path(tempfile.mkdtemp(prefix="preparing-", dir=folder))
                try:
                    workload.prepare_data(suite, temporary, source)
                    temporary.chmod(0o755)
                    temporary.rename(data)
                finally:
                    shutil.rmtree(temporary, ignore_errors=True)
            return read(data)
    except OSError as error:
        raise OutputError(f"{error.filename or folder}: {error.strerror}: the data cannot be prepared there") from None


def read(data: Path, is_noted: bool = True) -> DataSet:
    """The data set in the folder `data`, its digest taken now.

    is_noted: write the digests down for the next time; only under the lock.

    Raises:
        DataError: it has no metadata.json, or a file cannot be read.
    """
    try:
        content = json.loads((data / METADATA_NAME).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{data / METADATA_NAME}: cannot be read: {error}; delete {data} and prepare again") from None
    if not isinstance(content, dict):
        raise DataError(f"{data / METADATA_NAME}: is not a JSON object; delete {data} and prepare again")
    stamps = data.parent / "digests.json"
    known = _known(stamps)
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(path for path in data.rglob("*") if path.is_file()):
        name, status = path.relative_to(data).as_posix(), path.stat()
        entry = {"size": status.st_size, "mtime_ns": status.st_mtime_ns}
        before = known.get(name, {})
        try:
            is_same = {name: before.get(name) for name in entry} == entry
            found[name] = {**entry, "sha256": before["sha256"] if is_same else sha256_of(path)}
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    if is_noted and found != known:
        with suppress(OSError):  # it costs the next call time, and nothing else
            stamps.write_text(json.dumps(found, indent=1))
    lines = "".join(f"{entry['sha256']}  {name}\n" for name, entry in sorted(found.items()))
    return DataSet(
        path=data,
        digest=hashlib.sha256(lines.encode()).hexdigest(),
        num_files=len(found),
        num_bytes=sum(entry["size"] for entry in found.values()),
        metadata=content,
    )


def _known(stamps: Path) -> dict[str, dict[str, Any]]:
    """What was found the last time; nothing if that cannot be read, which costs only time."""
    try:
        known = json.loads(stamps.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(known, dict):
        return {}
    return {
        name: entry for name, entry in known.items() if isinstance(entry, dict) and isinstance(entry.get("sha256"), str)
    }


def drop_caches(data: Path) -> tuple[bool, dict[str, Any]]:
    """Asks the operating system to forget the data files, so that a run reads them from the disk.

    `posix_fadvise` needs no privilege and touches nobody else's files; it says nothing of what the kernel did
    with the request, nor of caches in storage. Returns whether every file was asked for, and how.
    """
    num_files = 0
    paths = [path for path in data.rglob("*") if path.is_file()]
    for path in paths:
        try:
            fd = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                num_files += 1
            finally:
                os.close(fd)
        except OSError:
            continue
    return num_files == len(paths), {"method": "posix_fadvise", "num_files": num_files}
