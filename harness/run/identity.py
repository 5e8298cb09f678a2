"""The code and the packages that a run is made with: their lists, and what the log says of them."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import __version__
from harness.base.files import sha256_of
from harness.base.processes import SOURCE_ROOT, isolated_paths
from harness.errors import SubmissionError
from harness.submission.claim import digest_lines
from harness.submission.provenance import CODE_FOLDERS, code_files, digest_of_list

NO_RECORD = "0" * 64  # of a distribution that lists no digests of its files
_GIT_LIMIT_S = 10.0
# Neither a hook nor a file-system monitor of the repository is run.
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")


@dataclass(frozen=True, slots=True)
class Identity:
    """The code and the packages as they are on disk: digests by name.

    commit, is_clean: of the checkout, and whether its code is the commit's; None outside a checkout.
    """

    code: dict[str, str]
    packages: dict[str, str]
    commit: str | None = None
    is_clean: bool | None = None

    @property
    def code_event(self) -> dict[str, object]:
        """The value of `tta_code`."""
        return {
            "digest": digest_of_list(self.code),
            "num_files": len(self.code),
            "commit": self.commit,
            "is_clean": self.is_clean,
            "version": __version__,
        }

    @property
    def packages_event(self) -> dict[str, object]:
        """The value of `tta_packages`."""
        return {
            "digest": digest_of_list(self.packages),
            "num_packages": len(self.packages),
            "python": {
                "version": platform.python_version(),
                "implementation": sys.implementation.name,
            },
        }

    @property
    def lists(self) -> tuple[str, str]:
        """The texts of the two lists, code first."""
        return digest_lines(self.code), digest_lines(self.packages)


def identify(root: Path = SOURCE_ROOT) -> Identity:
    """Return the identity of the source below `root` and of this interpreter's packages.

    Raises:
        SubmissionError: a file of the code cannot be read.
    """
    commit, is_clean = _checkout(root)
    packages: dict[str, str] = {}
    for name, digest in _packages():
        packages.setdefault(name, digest)  # of two with one name, Python imports the first
    try:
        return Identity(code_files(root), packages, commit, is_clean)
    except OSError as error:
        raise SubmissionError(f"{error.filename}: cannot be read: {error.strerror}") from None


def metadata_folders() -> Iterator[Path]:
    """Yield the metadata of each installed distribution: `<name>-<version>.dist-info`, or .egg-info.

    Installed is what an isolated Python finds, as the worker is: not the user's site-packages, nor PYTHONPATH.
    """
    for site in filter(Path.is_dir, map(Path, isolated_paths()[0])):
        yield from sorted(path for path in site.iterdir() if path.suffix in (".dist-info", ".egg-info"))


def _packages() -> Iterator[tuple[str, str]]:
    """Yield name and version of each distribution with the SHA-256 of its RECORD, and of the interpreter's program."""
    yield f"python-{platform.python_version()}", sha256_of(Path(os.path.realpath(sys.executable)))
    for folder in metadata_folders():
        try:
            yield folder.stem, sha256_of(folder / "RECORD")
        except OSError:
            yield folder.stem, NO_RECORD


def _checkout(root: Path) -> tuple[str | None, bool | None]:
    """Return the commit that is checked out in `root`, and whether the code is unchanged since."""
    if not (root / ".git").exists():  # an installed package may be inside another project's checkout
        return None, None
    commit = _git(root, "rev-parse", "--verify", "HEAD")
    status = _git(root, "status", "--porcelain", "--untracked-files=all", "--", *CODE_FOLDERS)
    return (None, None) if commit is None or status is None else (commit, status == "")


def _git(root: Path, *arguments: str) -> str | None:
    """Return the output of a git command in `root`; None if it fails, or takes too long."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [*_GIT, "-C", str(root), *arguments],
            env={**environment, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_LIMIT_S,
            check=False,
        )
        if done.returncode == 0:
            return done.stdout.decode("utf-8", "replace").strip()
    return None
