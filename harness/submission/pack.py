"""Packs a result as a submission and adds it to a leaderboard's tree: atomically, and never over another result."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.base.files import sha256_of, small_file
from harness.errors import OutputError, SubmissionError, UsageError, printable
from harness.log.power_files import POWER_PATTERN
from harness.submission.claim import Claim, FileEntry, manifest_text
from harness.submission.layout import (
    BENCHMARKS,
    BILLING_NAME,
    CAMPAIGN_NAME,
    CLAIM_NAME,
    CODE_LIST,
    MANIFEST_NAME,
    NAME_PATTERN,
    PACKAGES_LIST,
    RECEIPTS_PATTERN,
    RESULTS,
    SYSTEMS,
    UNFINISHED_PATTERN,
    result_name,
)
from harness.submission.predictions import PREDICTIONS_PATTERN
from harness.submission.result import Result
from harness.submission.weights import WEIGHTS_PATTERN

STAGING_PREFIX = ".tta-staging-"  # find_results skips folders whose names begin with a dot


@dataclass(frozen=True, slots=True)
class PackPaths:
    """Where the parts of a submission go, relative to the tree."""

    result: Path
    system: Path
    code: Path


def pack_paths(claim: Claim, repeats: str | None = None) -> PackPaths:
    """Return the places of the result, the system description and the module in the submitter's folder.

    repeats: the digest of the result that this one repeats; None: of none.

    Raises:
        UsageError: a name in the claim cannot be the name of a folder.
    """
    for what, name in (("submitter", claim.submitter), ("system", claim.system), ("benchmark", claim.benchmark)):
        if not NAME_PATTERN.fullmatch(name):
            raise UsageError(
                f"the {what} is called {printable(name)!r}; the name of a folder may have at most 100 characters, only "
                f"letters, digits and . _ + -, and must begin with a letter or digit"
            )
    submitter = Path(claim.submitter)
    return PackPaths(
        submitter / RESULTS / claim.system / result_name(claim.benchmark, repeats),
        submitter / SYSTEMS / f"{claim.system}.json",
        submitter / BENCHMARKS / claim.benchmark,
    )


@contextmanager
def packed(tree: Path, result: Result, claim: Claim) -> Iterator[Path]:
    """Yield a staging folder inside `tree` with the submission, laid out as in the tree itself; removed at the end.

    It is inside the tree because a rename is atomic only within one file system.

    Raises:
        OutputError: the tree is not a folder or cannot be written. SubmissionError: a file has changed since it was
            read.
    """
    if not tree.is_dir():
        raise OutputError(f"{tree}: is not a folder; create it first, it will be a leaderboard's tree")
    try:
        staging = Path(tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=tree))
    except OSError as error:
        raise OutputError(f"{tree}: cannot be written: {error.strerror}") from None
    try:
        _fill(staging, result, claim)
        yield staging
    except OSError as error:
        raise OutputError(f"{error.filename or staging}: {error.strerror}; nothing was submitted") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _fill(staging: Path, result: Result, claim: Claim) -> None:
    paths = pack_paths(claim, result.repeats)
    folder = staging / paths.result
    folder.mkdir(parents=True)
    files: dict[str, FileEntry] = {}
    for log in result.runs:
        shutil.copyfile(log.path, folder / log.path.name)
        digest = sha256_of(folder / log.path.name)
        if digest != log.sha256:
            raise SubmissionError(f"{log.path}: changed while it was being read")
        files[log.path.name] = FileEntry("file", log.num_bytes, digest)
    _fill_others(folder, result, files)
    for name in (BILLING_NAME, CODE_LIST, PACKAGES_LIST):
        if name in result.files:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(small_file(result.path / name))
            files[name] = FileEntry("file", 0, sha256_of(folder / name))
    assert result.system_path is not None
    system = staging / paths.system
    system.parent.mkdir(parents=True)
    shutil.copyfile(result.system_path, system)
    for name, entry in result.code.items():
        if entry.kind == "file" and result.code_path is not None:  # anything else is left out, and is a finding
            (staging / paths.code).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(result.code_path / name, staging / paths.code / name)
    (folder / CLAIM_NAME).write_text(yaml.safe_dump(claim.record(), sort_keys=False, allow_unicode=True))
    files[CLAIM_NAME] = FileEntry("file", 0, sha256_of(folder / CLAIM_NAME))
    (folder / MANIFEST_NAME).write_text(manifest_text(files))


def _fill_others(folder: Path, result: Result, files: dict[str, FileEntry]) -> None:
    """Copy the runs' predictions, weights and receipts, the end of their campaign, their power logs and the idle
    baseline's, and unfinished attempts.

    Regular files only.
    """
    runs = {log.path.stem for log in result.runs}
    for name, entry in result.files.items():
        power = POWER_PATTERN.fullmatch(name)
        kept = PREDICTIONS_PATTERN.fullmatch(name) or WEIGHTS_PATTERN.fullmatch(name)
        kept = kept or RECEIPTS_PATTERN.fullmatch(name)
        is_part = UNFINISHED_PATTERN.fullmatch(name) is not None
        is_part |= power is not None and (power[1] is None or power[1] in runs)
        is_part |= kept is not None and f"result_{kept[1]}" in runs
        is_part |= name == CAMPAIGN_NAME
        if entry.kind != "file" or not is_part:
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(result.path / name, folder / name)
        if sha256_of(folder / name) != entry.sha256:
            raise SubmissionError(f"{result.path / name}: changed while it was being read")
        files[name] = entry


def refuse_existing(tree: Path, paths: PackPaths) -> None:
    """Raise OutputError if the tree has a result in this place already."""
    target = tree / paths.result
    if target.exists() or target.is_symlink():
        raise _exists(target)


def _exists(target: Path) -> OutputError:
    return OutputError(
        f"{target}: there is a result already; a submission never replaces another "
        f"(describe the system under another name, or have the organiser remove the old one)"
    )


def add_to_tree(tree: Path, staging: Path, paths: PackPaths) -> Path:
    """Move a packed submission to its place in the tree, and return that place.

    Raises:
        OutputError: there is a result already, or another system description or module of the same name.
    """
    target = tree / paths.result
    shared = [paths.system, *sorted(path.relative_to(staging) for path in (staging / paths.code).glob("*.py"))]
    _sync(staging)
    try:
        refuse_existing(tree, paths)
        target.parent.mkdir(parents=True, exist_ok=True)
        added: list[Path] = []
        try:
            for part in shared:
                (tree / part).parent.mkdir(parents=True, exist_ok=True)
                if _link_shared(staging / part, tree / part):
                    added.append(part)
            (staging / paths.result).rename(target)  # fails if another submission was faster: its folder is not empty
        except (OSError, OutputError):
            # The faster one may rely on the system description or the module that was added here for both.
            users = {paths.system: f"{paths.system.stem}/*"}
            for part in added:
                if not any((tree / paths.result.parents[1]).glob(users.get(part, f"*/{paths.code.name}*"))):
                    (tree / part).unlink()
            raise
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise _exists(target) from None
        raise OutputError(f"{error.filename or target}: {error.strerror}; nothing was submitted") from None
    return target


def _link_shared(staged_file: Path, target: Path) -> bool:
    """Link a system description or a module to its place; return False if the same file is there already."""
    try:
        os.link(staged_file, target)
    except FileExistsError:
        if target.is_symlink() or sha256_of(target) != sha256_of(staged_file):
            if target.suffix == ".py":
                raise OutputError(f"{target}: there is another module of that name; rename this one") from None
            raise OutputError(
                f"{target}: there is another description of a system of that name; rename this system"
            ) from None
        return False
    return True


def _sync(folder: Path) -> None:
    """Flush the files to disk before they become visible."""
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            try:
                with contextlib.suppress(OSError):  # some network file systems have no fsync
                    os.fsync(fd)
            finally:
                os.close(fd)
