"""The code that a result was made with: the files it consists of, and how they differ from those of a release.

The code is every regular file in `harness/`, `workloads/` and `rules/`, in a checkout as in an installed wheel. Prose,
Python's caches of bytecode, the organiser's list of signers and the lists of releases are not part of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.base.files import sha256_of, walk
from harness.errors import SubmissionError, printable
from harness.submission.claim import Unreadable, digest_lines, read_manifest

CODE_FOLDERS = ("harness", "workloads", "rules")
RELEASES_FOLDER = "releases"  # in rules/: <version>.txt has the digests of a release's files
_MAX_FILES = 100_000
_MAX_NAMED = 3  # files of each kind of difference


@dataclass(frozen=True, slots=True)
class Difference:
    """Where code differs from a release: the paths that are changed, added and missing, sorted."""

    release: str
    changed: tuple[str, ...]
    added: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def num_files(self) -> int:
        return len(self.changed) + len(self.added) + len(self.missing)

    def __str__(self) -> str:
        kinds = {"changed": self.changed, "added": self.added, "missing": self.missing}
        named = "; ".join(f"{kind}: {_some(paths)}" for kind, paths in kinds.items() if paths)
        return f"differs from release {self.release}: {named or 'in the order of its list'}"


def _some(paths: tuple[str, ...]) -> str:
    named = ", ".join(printable(path, 120) for path in paths[:_MAX_NAMED])
    return f"{named} and {len(paths) - _MAX_NAMED:,} more" if len(paths) > _MAX_NAMED else named


def code_files(root: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of the code below `root`, by relative path. Links are not followed.

    Raises:
        SubmissionError: a folder cannot be listed. OSError: a file cannot be read.
    """
    found = {}
    for top in CODE_FOLDERS:
        for level in walk(root / top, _MAX_FILES, "source"):
            if level.why is not None:
                raise SubmissionError(f"{level.path}: cannot be listed: {level.why}")
            skipped = {"__pycache__", *([RELEASES_FOLDER] if level.path == root / "rules" else [])}
            level.folders[:] = [name for name in level.folders if name not in skipped]
            for path in (level.path / name for name in level.names):
                if path.suffix != ".md" and path.name != "allowed_signers" and path.is_file() and not path.is_symlink():
                    found[path.relative_to(root).as_posix()] = sha256_of(path)
    return found


def digest_of_list(digests: Mapping[str, str]) -> str:
    """Return the SHA-256 of digests by name, written as lines: that of the file which has them."""
    return hashlib.sha256(digest_lines(digests).encode()).hexdigest()


def read_list(path: Path) -> dict[str, str]:
    """Return the digests by name in a list.

    Raises:
        SubmissionError: it is missing or cannot be read.
    """
    faults: list[Unreadable] = []
    found, _ = read_manifest(path, faults)
    if found is None or faults:
        raise SubmissionError(f"{path}: {faults[0].message if faults else 'is missing'}")
    return found


def difference(files: Mapping[str, str], release: str, released: Mapping[str, str]) -> Difference:
    """Return how `files` differ from those of a release."""
    return Difference(
        release,
        changed=tuple(sorted(path for path in files.keys() & released.keys() if files[path] != released[path])),
        added=tuple(sorted(files.keys() - released.keys())),
        missing=tuple(sorted(released.keys() - files.keys())),
    )


def nearest(files: Mapping[str, str], releases: Mapping[str, Mapping[str, str]]) -> Difference | None:
    """Return the difference from the release with the fewest differing files; None without releases."""
    found = [difference(files, release, released) for release, released in releases.items()]
    return min(found, key=lambda item: item.num_files, default=None)
