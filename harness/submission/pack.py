"""Puts a result together as a submission and places it in a leaderboard's tree: whole, once, never over another."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from harness.errors import OutputError, SubmissionError, UsageError, printable
from harness.log.power_files import POWER_PATTERN
from harness.submission.billing import BILLING_NAME
from harness.submission.result import (
    CLAIM_NAME,
    MANIFEST_NAME,
    NAME_PATTERN,
    Claim,
    FileEntry,
    Result,
    manifest_text,
    sha256_of,
    small_file,
)

STAGING_PREFIX = ".tta-staging-"  # find_results passes over folders whose names begin with a dot


@dataclass(frozen=True, slots=True)
class Places:
    """Where the parts of a submission go, relative to the tree."""

    result: Path
    system: Path
    code: Path


def places(claim: Claim) -> Places:
    """<submitter>/results/<system>/<benchmark>, systems/<system>.json and benchmarks/<benchmark> beside it.

    Raises:
        UsageError: a name in the claim cannot be a folder's name.
    """
    for what, name in (("submitter", claim.submitter), ("system", claim.system), ("benchmark", claim.benchmark)):
        if not NAME_PATTERN.fullmatch(name):
            raise UsageError(
                f"the {what} is called {printable(name)!r}; as a folder's name it may have letters, digits and . _ + - "
                f"only, at most 100, and begin with a letter or digit"
            )
    submitter = Path(claim.submitter)
    return Places(
        submitter / "results" / claim.system / claim.benchmark,
        submitter / "systems" / f"{claim.system}.json",
        submitter / "benchmarks" / claim.benchmark,
    )


@contextmanager
def staged(tree: Path, result: Result, claim: Claim) -> Iterator[Path]:
    """The submission in a staging folder inside `tree`, laid out as in the tree itself; removed at the end.

    Inside the tree, because a rename is atomic only within one file system.

    Raises:
        OutputError: the tree is no folder, or cannot be written. SubmissionError: a file vanished meanwhile.
    """
    if not tree.is_dir():
        raise OutputError(f"{tree}: is not a folder; make it first, it will be a leaderboard's tree")
    try:
        staging = Path(tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=tree))
    except OSError as error:
        raise OutputError(f"{tree}: cannot be written: {error.strerror}") from None
    try:
        _fill(staging, result, claim)
        yield staging
    except OSError as error:
        raise OutputError(f"{error.filename or staging}: {error.strerror}; nothing was placed") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _fill(staging: Path, result: Result, claim: Claim) -> None:
    where = places(claim)
    folder = staging / where.result
    folder.mkdir(parents=True)
    files: dict[str, FileEntry] = {}
    for log in result.runs:
        shutil.copyfile(log.path, folder / log.path.name)
        digest = sha256_of(folder / log.path.name)
        if digest != log.sha256:
            raise SubmissionError(f"{log.path}: changed while it was being read")
        files[log.path.name] = FileEntry("file", log.num_bytes, digest)
    _fill_power(folder, result, files)
    if BILLING_NAME in result.files:
        (folder / BILLING_NAME).write_bytes(small_file(result.path / BILLING_NAME))
        files[BILLING_NAME] = FileEntry("file", 0, sha256_of(folder / BILLING_NAME))
    assert result.system_path is not None
    system = staging / where.system
    system.parent.mkdir(parents=True)
    shutil.copyfile(result.system_path, system)
    for name, entry in result.code.items():
        if entry.kind == "file" and result.code_path is not None:  # what is no file stays behind, and is a finding
            (staging / where.code).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(result.code_path / name, staging / where.code / name)
    (folder / CLAIM_NAME).write_text(yaml.safe_dump(asdict(claim), sort_keys=False, allow_unicode=True))
    files[CLAIM_NAME] = FileEntry("file", 0, sha256_of(folder / CLAIM_NAME))
    (folder / MANIFEST_NAME).write_text(manifest_text(files))


def _fill_power(folder: Path, result: Result, files: dict[str, FileEntry]) -> None:
    """Copies the power logs of the runs and of the idle baseline; what is no file stays behind."""
    runs = {log.path.stem for log in result.runs}
    for name, entry in result.files.items():
        match = POWER_PATTERN.fullmatch(name)
        if match is None or entry.kind != "file" or not (match[1] is None or match[1] in runs):
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(result.path / name, folder / name)
        if sha256_of(folder / name) != entry.sha256:
            raise SubmissionError(f"{result.path / name}: changed while it was being read")
        files[name] = entry


def refuse_second(tree: Path, claim: Claim) -> None:
    """Raises OutputError where a result lies in the place of the claim already."""
    target = tree / places(claim).result
    if target.exists() or target.is_symlink():
        raise _second(target)


def _second(target: Path) -> OutputError:
    return OutputError(
        f"{target}: a result is there already; a submission never replaces another "
        f"(describe the system under another name, or have the organiser remove the old one)"
    )


def place(tree: Path, staging: Path, claim: Claim) -> Path:
    """Moves what was staged to its place in the tree and returns that place.

    Raises:
        OutputError: a result is there already, or another system description or module of the same name.
    """
    where = places(claim)
    target = tree / where.result
    beside = [where.system, *sorted(path.relative_to(staging) for path in (staging / where.code).glob("*.py"))]
    _sync(staging)
    try:
        refuse_second(tree, claim)
        target.parent.mkdir(parents=True, exist_ok=True)
        placed: list[Path] = []
        try:
            for part in beside:
                (tree / part).parent.mkdir(parents=True, exist_ok=True)
                if _place_beside(staging / part, tree / part):
                    placed.append(part)
            (staging / where.result).rename(target)  # fails if somebody was faster: their folder is not empty
        except (OSError, OutputError):
            # Who was faster relies on what we placed for both: the description of the system, or the module.
            users = {where.system: f"{claim.system}/*"}
            for part in placed:
                if not any((tree / where.result.parents[1]).glob(users.get(part, f"*/{claim.benchmark}"))):
                    (tree / part).unlink()
            raise
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise _second(target) from None
        raise OutputError(f"{error.filename or target}: {error.strerror}; nothing was placed") from None
    return target


def _place_beside(staged_file: Path, target: Path) -> bool:
    """Links a system description or a module to its place; False if the same is there already."""
    try:
        os.link(staged_file, target)
    except FileExistsError:
        if target.is_symlink() or sha256_of(target) != sha256_of(staged_file):
            if target.suffix == ".py":
                raise OutputError(
                    f"{target}: another module of that name is there; name this one differently"
                ) from None
            raise OutputError(
                f"{target}: another description of a system of that name is there; name this system differently"
            ) from None
        return False
    return True


def _sync(folder: Path) -> None:
    """Brings the files to the disk before they become visible."""
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            try:
                with contextlib.suppress(OSError):  # some network file systems have no fsync
                    os.fsync(fd)
            finally:
                os.close(fd)
