"""The files that a process has loaded, and which of them neither the code, nor a package, nor Python accounts for.

A process lists its files itself; the referee hashes and judges them, its own, the worker's and the evaluator's. What is
not seen: code that was compiled in memory, libraries that hide, and bytecode in `__pycache__` that does not fit its
source.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import os
import re
import sys
import sysconfig
import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.base.files import sha256_of
from harness.base.processes import SOURCE_ROOT
from harness.errors import printable
from harness.run.identity import metadata_folders

# Where the distribution keeps libraries and modules of its own, and where drivers are mounted into a container.
SYSTEM_FOLDERS = (
    "/usr/lib/",
    "/usr/lib64/",
    "/lib/",
    "/lib64/",
    "/etc/python3",
    "/usr/local/cuda",
    "/usr/local/nvidia/",
)
# Kernels that torch.compile made; the checks ask whether the run was one that compiles.
_COMPILED = re.compile(r"/torchinductor_[^/]+/|/\.triton/")
MAX_NAMED = 50  # files of each kind
_MAX_HASHED_BYTES = 4 << 20  # of a package's file: a larger one is a library, of which only the size is compared
_MAX_READ_BYTES = 64 << 20  # a larger file outside has no digest
_MAPS = Path("/proc/self/maps")


def loaded_files() -> list[str]:
    """Return the absolute paths behind this process's modules and executable mappings, sorted."""
    found = set()
    for module in list(sys.modules.values()):
        if issubclass(
            type(module), types.ModuleType
        ):  # what only says that it is one, as cffi's libraries, has no dict
            # Not by `module.__file__`: a lazy module would be imported by that.
            path = types.ModuleType.__getattribute__(module, "__dict__").get("__file__")
            if isinstance(path, str):
                found.add(os.path.abspath(path))  # noqa: PTH100  (a path that does not exist stays as it is)
    with contextlib.suppress(OSError):  # Linux only
        for line in _MAPS.read_text(encoding="utf-8", errors="replace").splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                found.add(fields[5])
    return sorted(found)


@dataclass
class _Loaded:
    """What one process had loaded. outside, changed: digests by path; None for one that is not read."""

    num_files: int = 0
    outside: dict[str, str | None] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    system: set[str] = field(default_factory=set)
    num_compiled: int = 0

    @property
    def value(self) -> dict[str, Any]:
        """As the log has it."""
        return {
            "num_files": self.num_files,
            "num_outside": len(self.outside),
            "outside": [
                {"path": printable(path, 300), "sha256": digest}
                for path, digest in sorted(self.outside.items())[:MAX_NAMED]
            ],
            "num_changed": len(self.changed),
            "changed": [printable(path, 300) for path in sorted(self.changed)[:MAX_NAMED]],
            "num_compiled": self.num_compiled,
            "num_system": len(self.system),
            "system": [printable(name, 100) for name in sorted(self.system)[: 4 * MAX_NAMED]],
        }


class Judge:
    """Knows the files of the code, of the installed distributions and of Python itself."""

    def __init__(self, code: Mapping[str, str], root: Path = SOURCE_ROOT, known: Collection[str] = ()) -> None:
        """code: digests by path relative to `root`. known: digests of files that may be anywhere."""
        self._known = frozenset(known)
        self._code = {f"{place}/{path}": digest for place in _both(root) for path, digest in code.items()}
        self._kinds: dict[str, tuple[str, str | None]] = {}
        self._libraries = {path for name in ("stdlib", "platstdlib") for path in _both(Path(sysconfig.get_path(name)))}
        self._program = os.path.realpath(sys.executable)
        self._prefix = os.path.realpath(os.path.join(sys.base_prefix, "lib"))

    def look_at(self, paths: Iterable[str]) -> None:
        """Read the RECORDs, for the files that `judge` has not seen: processes share most of what they load."""
        places = {path: _places(path) for path in set(paths) - self._kinds.keys()}
        wanted = {place for those in places.values() for place in those}
        # All rows of an installation for training are 76,000: kept for each run, they leave the heap in pieces.
        records = {path: record for path, record in _records() if path in wanted} if wanted else {}
        for path, those in places.items():
            self._kinds[path] = self._kind(path, those, records)

    def judge(self, paths: Sequence[str]) -> dict[str, Any]:
        """Return the judgement on the files that one process had loaded, as the log has it."""
        self.look_at(paths)
        found = _Loaded()
        for path in paths:
            found.num_files += 1
            kind, detail = self._kinds[path]
            if kind == "outside":
                found.outside[path] = detail
            elif kind == "changed":
                found.changed.append(path)
            elif kind == "system":
                found.system.add(os.path.basename(path))  # noqa: PTH119
            found.num_compiled += kind == "compiled"
        return found.value

    def _kind(self, path: str, places: Sequence[str], records: Mapping[str, tuple[str, str]]) -> tuple[str, str | None]:
        """Return what a file is: known, changed, system, compiled, or outside, with its digest."""
        if not places:
            return "outside", None
        for place in places:
            if (digest := self._code.get(place)) is not None:
                return ("known" if _sha256(place) == digest else "changed"), None
            if (record := records.get(place)) is not None:
                return ("known" if _is_recorded(place, *record) else "changed"), None
            if self._is_python(place):
                return "known", None
            if self._is_system(place):
                return "system", None
        if _COMPILED.search(path):
            return "compiled", None
        digest = _sha256(path)
        return ("known", None) if digest in self._known else ("outside", digest)

    def _is_system(self, path: str) -> bool:
        """Whether a file is where the distribution has its own, or a library in the interpreter's prefix."""
        if "/site-packages/" in path:
            return False
        return path.startswith(SYSTEM_FOLDERS) or (path.startswith(f"{self._prefix}/") and ".so" in path)

    def _is_python(self, path: str) -> bool:
        """Whether a file is the interpreter or belongs to a module of the standard library, by its name."""
        if path == self._program:
            return True
        for library in self._libraries:
            if path.startswith(f"{library}/"):
                parts = path[len(library) + 1 :].removeprefix("lib-dynload/").split("/")
                name = parts[0].partition(".")[0]
                # A sitecustomize.py in this folder is not Python's.
                return name in sys.stdlib_module_names or name.startswith("_sysconfigdata_")
        return False


def judged(judge: Judge, listed: Mapping[str, Sequence[str] | None]) -> dict[str, Any]:
    """Return the value of `tta_loaded`.

    listed: the files that each other process listed, by its name; None if it was not there to ask.
    """
    everything = {"referee": loaded_files(), **listed}
    judge.look_at(path for files in everything.values() for path in files or ())
    return {name: None if files is None else judge.judge(files) for name, files in everything.items()}


def _records() -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the absolute path, and digest and size, of each file of each installed distribution."""
    for folder in metadata_folders():
        places = _both(folder.parent)
        with (
            contextlib.suppress(OSError, csv.Error),
            (folder / "RECORD").open(encoding="utf-8", errors="replace", newline="") as stream,
        ):
            for row in csv.reader(stream):
                for place in places if len(row) == 3 else ():
                    path = f"{place}/{row[0]}"
                    yield os.path.normpath(path) if ".." in row[0] else path, (row[1], row[2])


def _places(path: str) -> list[str]:
    """The path of a file, and the one without links; none for a path that no file can have."""
    try:
        return list(dict.fromkeys((path, os.path.realpath(path))))
    except ValueError:
        return []


def _both(folder: Path) -> list[str]:
    """The path of a folder, and the one without links."""
    return list(dict.fromkeys((str(folder.absolute()), os.path.realpath(folder))))


def _is_recorded(path: str, digest: str, size: str) -> bool:
    """Whether a file is what its RECORD lists; where no digest is listed, every file is."""
    algorithm, _, expected = digest.partition("=")
    if algorithm != "sha256":
        return True
    try:
        num_bytes = Path(path).stat().st_size
    except OSError:
        return False
    if size.isdecimal() and num_bytes != int(size):
        return False
    if num_bytes > _MAX_HASHED_BYTES:
        return True
    found = _sha256(path)
    return found is not None and base64.urlsafe_b64encode(bytes.fromhex(found)).rstrip(b"=").decode() == expected


def _sha256(path: str) -> str | None:
    """Return the digest of a file; None for one that is very large, or cannot be read."""
    try:
        return sha256_of(Path(path)) if Path(path).stat().st_size <= _MAX_READ_BYTES else None
    except OSError:
        return None
