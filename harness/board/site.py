"""Board -> a folder of files, published atomically. An older site is replaced; anything else is never touched."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from harness.board.index import Board, Download
from harness.board.pages.render import render_pages
from harness.errors import InputError, OutputError, printable

MARKER_NAME = "tta-board.json"  # {"format": 1, "files": {path: sha256}}: marks a folder as a site
FORMAT_VERSION = 1
_COPY_BYTES = 1 << 20


def write_site(board: Board, site: Path, tree: Path) -> int:
    """Writes the whole site of a board to `site`, as `publish` does; returns the number of its files."""
    downloads = (download for _, entry in sorted(board.entries.items()) for download in entry.downloads)
    return publish(render_pages(board), downloads, site, [tree])


def publish(
    pages: Iterable[tuple[str, bytes]], downloads: Iterable[Download], site: Path, trees: Iterable[Path]
) -> int:
    """Writes pages and copies to `site`; returns the number of its files, without the marker.

    trees: what they are made of. The site is built next to `site` and renamed: readers see the old or the new one, and
    an interrupted build leaves the old one unchanged.

    Raises:
        OutputError: `site` is neither a site nor an empty folder, contains a tree or is inside it, or cannot be
            written. InputError: a submitted file changed while it was copied.
    """
    for tree in trees:
        refuse_foreign(site, tree)
    try:
        site.parent.mkdir(parents=True, exist_ok=True)
        with _staging_folder(site) as folder:
            count = _fill(folder, pages, downloads)
            _replace(site, folder)
    except OSError as error:
        raise OutputError(f"{error.filename or site}: cannot be written: {error.strerror}") from None
    return count


def refuse_foreign(site: Path, tree: Path) -> None:
    """Refuses to write a site over anything that is not one.

    Raises:
        OutputError: names what is in the way.
    """
    if site.is_symlink():
        raise OutputError(f"{site}: is a symbolic link; name the folder itself")
    here, there = site.resolve(), tree.resolve()
    if here == there or here.is_relative_to(there) or there.is_relative_to(here):
        raise OutputError(f"{site}: is inside the tree {tree} or contains it; choose a folder outside")
    if not site.exists():
        return
    if not site.is_dir():
        raise OutputError(f"{site}: exists and is not a folder")
    files = (path for path in site.rglob("*") if path.is_symlink() or not path.is_dir())
    names = sorted(path.relative_to(site).as_posix() for path in files)
    if not names:
        return
    listed = _listed(site / MARKER_NAME)
    if listed is None:
        raise OutputError(f"{site}: exists and is not a site (no {MARKER_NAME}); choose another folder")
    foreign = next((name for name in names if name not in listed and name != MARKER_NAME), None)
    if foreign is not None:
        raise OutputError(f"{site}: {printable(foreign)} is not part of the site and would be lost; move it first")


def _listed(marker: Path) -> set[str] | None:
    """The files that the marker lists; None where there is no valid marker."""
    try:
        content = json.loads(marker.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    files = content.get("files") if isinstance(content, dict) and content.get("format") == FORMAT_VERSION else None
    return set(files) if isinstance(files, dict) else None


@contextlib.contextmanager
def _staging_folder(site: Path) -> Iterator[Path]:
    """A new hidden folder next to `site`, removed at the end if it still exists."""
    folder = site.absolute().parent / f".{site.absolute().name}.{secrets.token_hex(4)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _replace(site: Path, folder: Path) -> None:
    """Replaces `site` by `folder`; the old site is moved aside first and restored on failure."""
    old = folder.with_name(folder.name + ".old")
    try:
        if site.exists():
            site.rename(old)
        folder.rename(site)
    finally:
        if old.exists() and not site.exists():
            old.rename(site)
    if old.exists():
        shutil.rmtree(old)


def _fill(folder: Path, pages: Iterable[tuple[str, bytes]], downloads: Iterable[Download]) -> int:
    digests: dict[str, str] = {}
    for path, content in pages:
        assert path not in digests, f"two pages are called {path}"
        target = _place(folder, path)
        target.write_bytes(content)
        digests[path] = hashlib.sha256(content).hexdigest()
    for download in downloads:
        assert download.target not in digests, f"two files are called {download.target}"
        _copy(download, _place(folder, download.target))
        digests[download.target] = download.sha256
    marker = {"format": FORMAT_VERSION, "files": digests}
    (folder / MARKER_NAME).write_text(json.dumps(marker, indent=1, sort_keys=True) + "\n")
    return len(digests)


def _place(folder: Path, path: str) -> Path:
    """The path below `folder`; creates its parents."""
    parts = PurePosixPath(path).parts
    is_inside = bool(parts) and ".." not in parts and not path.startswith("/")
    assert is_inside, f"{path} leads out of the site"
    target = folder.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _copy(download: Download, target: Path) -> None:
    """Copies a submitted file; the copy must be what was judged.

    Raises:
        InputError: the file is gone, is no longer a regular file, or has changed.
    """
    digest = hashlib.sha256()
    try:
        fd = os.open(download.source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise InputError(f"{download.source}: can no longer be read: {error.strerror}") from None
    with os.fdopen(fd, "rb") as source, target.open("wb") as copy:
        while piece := source.read(_COPY_BYTES):
            digest.update(piece)
            copy.write(piece)
    if digest.hexdigest() != download.sha256:
        raise InputError(f"{download.source}: changed while the board was being built; build it again")
