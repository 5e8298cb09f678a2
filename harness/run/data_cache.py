"""Prepared data on disk: created once, verified by digest before every result, and kept.

    <cache>/<workload>_<suite>/prepared/data/...     what the workload wrote, except for
    <cache>/<workload>_<suite>/prepared/labels/...   the labels of the test set, which only the evaluator sees
    <cache>/<workload>_<suite>/digests.json          size, timestamp and SHA-256 of each file
    <cache>/<workload>_<suite>/downloads/...         what the workload downloaded (`data_dir.parent / "downloads"`);
                                                     kept if preparation fails, so that the next attempt resumes
    <cache>/<workload>_<suite>/unfinished/...        shards of a preparation (`workloads.streaming.shards`), which the
                                                     next attempt completes; they are moved to `prepared` in the end
    <cache>/<workload>_<suite>/preparing-*           one in progress; the next call removes what a killed one left

The digest of a data set is the SHA-256 of its `<sha256>  <path>` lines sorted by path, so that `sha256sum` can
reproduce it. A file whose size and timestamp are unchanged is not read again. A cache that cannot be written, such as
a shared one, is used read-only if it has the data; digests that cannot be stored there are computed each time.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.base import digests
from harness.errors import DataError, OutputError
from harness.workload import Workload

METADATA_NAME = "metadata.json"
DATA_NAME, LABELS_NAME = "data", "labels"


@dataclass(frozen=True, slots=True)
class DataSet:
    """A prepared data set, in two folders: what the training may see, and the labels of the test set.

    digest: SHA-256 of all files of both. metadata: what a workload may know before the clock starts.
    """

    path: Path
    labels: Path
    digest: str
    num_files: int
    num_bytes: int
    metadata: dict[str, Any]


def default_cache() -> Path:
    """Return `$TTA_DATA`, or `tta` in the user's cache folder."""
    if place := os.environ.get("TTA_DATA"):
        return Path(place)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tta"


def prepare(workload: Workload, suite: str, cache: Path, source: Path | None = None) -> DataSet:
    """Return the data set of a suite; prepare it if it is missing.

    A preparation that fails leaves only downloads and complete shards behind; simultaneous ones wait for each other.

    Raises:
        DataError: the data are not available, or damaged.
        OutputError: the cache cannot be written and does not have the data.
    """
    folder = cache / f"{workload.name}_{suite}"
    prepared = folder / "prepared"
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = (folder / "lock").open("w")
        except OSError:
            if not prepared.is_dir():
                raise
            return read(prepared, is_noted=False)  # complete, because it was renamed into place
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in folder.glob("preparing-*"):  # of a call that was killed: no other call has the lock
                shutil.rmtree(left, ignore_errors=True)
            if not prepared.is_dir():
                temporary = Path(tempfile.mkdtemp(prefix="preparing-", dir=folder))
                made = Path(tempfile.mkdtemp(prefix="preparing-", dir=folder))
                try:
                    workload.prepare_data(suite, made, source)
                    _divide(made, temporary, workload.labels)
                    temporary.chmod(0o755)
                    temporary.rename(prepared)
                finally:
                    shutil.rmtree(made, ignore_errors=True)
                    shutil.rmtree(temporary, ignore_errors=True)
            return read(prepared)
    except OSError as error:
        raise OutputError(f"{error.filename or folder}: {error.strerror}: the data cannot be prepared there") from None


def _divide(made: Path, prepared: Path, labels: Collection[str]) -> None:
    """Move the files of `made` to `data/` or, the `labels`, to `labels/` in `prepared`."""
    for name in (DATA_NAME, LABELS_NAME):
        (prepared / name).mkdir()
    for path in sorted(made.iterdir()):
        path.rename(prepared / (LABELS_NAME if path.name in labels else DATA_NAME) / path.name)


def read(prepared: Path, is_noted: bool = True) -> DataSet:
    """Return the data set in the folder `prepared`, with its current digest.

    is_noted: store the digests for the next call; only under the lock.

    Raises:
        DataError: it has no metadata.json, or a file cannot be read.
    """
    data, labels = prepared / DATA_NAME, prepared / LABELS_NAME
    try:
        content = json.loads((data / METADATA_NAME).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(
            f"{data / METADATA_NAME}: cannot be read: {error}; delete {prepared} and prepare again"
        ) from None
    if not isinstance(content, dict):
        raise DataError(f"{data / METADATA_NAME}: must be a JSON object; delete {prepared} and prepare again")
    digests_path = prepared.parent / digests.NAME
    known = digests.stored(digests_path)
    found: dict[str, digests.Entry] = {}
    # The two folders divide one set of names, so that the digest does not depend on what is a label.
    files = {path.relative_to(part).as_posix(): path for part in (data, labels) for path in part.rglob("*")}
    for name, path in sorted((name, path) for name, path in files.items() if path.is_file()):
        try:
            found[name] = digests.entry(path, known.get(name))
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    if is_noted and found != known:
        digests.store(digests_path, found)
    lines = "".join(f"{entry['sha256']}  {name}\n" for name, entry in sorted(found.items()))
    return DataSet(
        path=data,
        labels=labels,
        digest=hashlib.sha256(lines.encode()).hexdigest(),
        num_files=len(found),
        num_bytes=sum(entry["size"] for entry in found.values()),
        metadata=content,
    )


def drop_caches(*folders: Path) -> tuple[bool, dict[str, Any]]:
    """Ask the operating system to drop the files in `folders` from its cache, so that a run reads them from the disk.

    `posix_fadvise` needs no privilege and affects no other files. It does not report what the kernel did, and does
    not reach the caches of the storage. Returns whether the request was made for every file, and how.
    """
    num_files = 0
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
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
