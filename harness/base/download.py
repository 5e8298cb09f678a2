"""Downloads one file: resumes where it stopped, shows progress, keeps the file only if its digest is right.

Standard library only; the workloads' loaders of public data share it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from harness.errors import DataError, printable

SILENCE_S = 15.0  # without a byte, after which the server counts as gone
_CHUNK = 1 << 18
_PARTIAL_CONTENT = 206
_RANGE_NOT_SATISFIABLE = 416


def download(
    url: str,
    path: Path,
    sha256: str,
    max_bytes: int,
    say: Callable[[str], None] | None = None,
    timeout_s: float = SILENCE_S,
) -> None:
    """Download `url` to `path`, whose parent exists; do nothing if the right file is there already.

    A partial download is kept in `<path>.part`, and the next call resumes it. A complete one with another digest, or
    one that is too large, is removed.

    url: https, http or file. sha256: of the whole file, hexadecimal. max_bytes: a larger file is refused on the way.
    say: called with a line of progress about once a second; prints to standard error by default.

    Raises:
        DataError: there is no network, the server refuses or stops, or it sends too much or another file.
    """
    if path.is_file() and _sha256(path) == sha256:
        return
    part = path.with_name(path.name + ".part")
    try:
        _fetch(url, part, max_bytes, say or _to_stderr, timeout_s)
    except _TooMuchError:
        part.unlink(missing_ok=True)
        raise DataError(f"{url}: sends more than {max_bytes:,} bytes, the most it may have; it was not kept") from None
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        have = part.stat().st_size if part.is_file() else 0
        raise DataError(
            f"{url} could not be downloaded ({printable(reason)}); try again to resume at {have:,} bytes, "
            "or fetch it some other way and give its folder as the source"
        ) from None
    found = _sha256(part)
    if found != sha256:
        part.unlink()
        raise DataError(f"{url}: the download has SHA-256 {found}, expected {sha256}; it was not kept")
    part.replace(path)


class _TooMuchError(Exception):
    """The server sends more bytes than the file may have."""


def _fetch(url: str, part: Path, max_bytes: int, say: Callable[[str], None], timeout_s: float) -> None:
    have = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "tta-harness"})  # noqa: S310  (from the loaders)
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=timeout_s)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code == _RANGE_NOT_SATISFIABLE and have:
            return  # the part was complete
        raise
    with response, part.open("ab") as stream:
        if have and response.status != _PARTIAL_CONTENT:
            have = 0  # the server cannot resume and starts again
            stream.truncate(0)
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        if total is not None and total > max_bytes:
            raise _TooMuchError
        last_said_s = time.monotonic()
        # `read1` returns what has arrived; `read` would wait for a whole chunk and lose it if the connection dies.
        while chunk := response.read1(_CHUNK):
            have += len(chunk)
            if have > max_bytes:
                raise _TooMuchError
            stream.write(chunk)
            if time.monotonic() - last_said_s > 1:
                last_said_s = time.monotonic()
                say(f"{Path(url).name}: {have >> 20:,} MiB" + (f" of {total >> 20:,} MiB" if total else ""))
        os.fsync(stream.fileno())
    if total is not None and have < total:
        raise OSError(f"it ended after {have:,} of {total:,} bytes")


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
