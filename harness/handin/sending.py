"""Sends a packed submission to a service: the list of its files, then those that are missing, then the end."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.base.files import sha256_of, walk
from harness.base.http import HttpClient, RefusedError, UnreachableError
from harness.base.values import is_whole
from harness.errors import InputError, OutputError, printable

BUNDLE_BYTES = 16 << 20  # of small files, in one request
LARGE_BYTES = 8 << 20  # a larger file is uploaded by itself, and resumed
PIECE_BYTES = 16 << 20  # of a large file: what is sent again at most, after the connection was lost
_MAX_FILES = 10_000
_CONFLICT = 409


@dataclass(frozen=True, slots=True)
class Options:
    """round: None: the only one that is open. supersedes: the id of an own submission."""

    round: str | None = None
    supersedes: str | None = None


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    source: Path
    sha256: str
    num_bytes: int


def send(client: HttpClient, tree: Path, options: Options, say: Callable[[str], None]) -> dict[str, Any]:
    """Send what is in `tree`, which has one submission; return its receipt.

    Interrupted, a second call sends what is still missing. Called again after the end, it returns the same receipt.

    Raises:
        InputError: nobody answers, the service refuses, or answers what cannot be. OutputError: a file changed.
    """
    files = list(_files(tree))
    listed = [{"path": item.path, "sha256": item.sha256, "bytes": item.num_bytes} for item in files]
    named = {name: value for name, value in asdict(options).items() if value is not None}
    answer = client.post("api/v1/submissions", {"files": listed, **named})
    submission, missing = answer.get("id"), answer.get("missing")
    if not isinstance(submission, str) or not submission.isalnum() or not isinstance(missing, list):
        raise InputError(f"{client.root}: the service answered without an id and the files it lacks")
    by_digest = {item.sha256: item for item in files}
    wanted = [by_digest[digest] for digest in _digests(missing) if digest in by_digest]
    total = sum(item.num_bytes for item in wanted)
    say(f"submission {submission}: {len(wanted):,} of {len(files):,} files to send, {total:,} bytes")
    small = [item for item in wanted if item.num_bytes < LARGE_BYTES]
    for part in _bundles(small):
        _send_bundle(client, submission, part)
    for item in wanted:
        if item.num_bytes >= LARGE_BYTES:
            upload(client, item.source, item.sha256, item.num_bytes, say)
    return client.post(f"api/v1/submissions/{submission}/finalise")


def _files(tree: Path) -> Iterator[_File]:
    for level in walk(tree, _MAX_FILES, "submission"):
        for name in level.names:
            path = level.path / name
            yield _File(path.relative_to(tree).as_posix(), path, sha256_of(path), path.stat().st_size)


def _digests(missing: Sequence[Any]) -> list[str]:
    return [item["sha256"] for item in missing if isinstance(item, dict) and isinstance(item.get("sha256"), str)]


def _bundles(files: Sequence[_File]) -> Iterator[list[_File]]:
    part: list[_File] = []
    for item in files:
        if part and sum(each.num_bytes for each in part) + item.num_bytes > BUNDLE_BYTES:
            yield part
            part = []
        part.append(item)
    if part:
        yield part


def _send_bundle(client: HttpClient, submission: str, part: Sequence[_File]) -> None:
    head = json.dumps([item.sha256 for item in part]).encode() + b"\n"
    data = head + b"".join(item.source.read_bytes() for item in part)
    path, headers = f"api/v1/submissions/{submission}/files", {"content-type": "application/octet-stream"}
    for attempt in range(client.retries + 1):
        try:
            client.request("POST", path, data, headers, retries=0)
            return
        except UnreachableError:
            if attempt == client.retries:
                raise
            client.sleep(min(8.0, 0.5 * 2**attempt))
            answer = client.get(f"api/v1/submissions/{submission}/missing")  # it may have arrived
            left = set(_digests(answer.get("missing", [])))
            rest = [item for item in part if item.sha256 in left]
            if len(rest) < len(part):
                if rest:
                    _send_bundle(client, submission, rest)
                return


def upload(client: HttpClient, path: Path, sha256: str, num_bytes: int, say: Callable[[str], None]) -> None:
    """Upload a large file in pieces; go on with what has not arrived, after a lost connection or an earlier call.

    Raises:
        InputError: nobody answers any more, or the service refuses. OutputError: the file became shorter.
    """
    metadata = f"sha256 {base64.b64encode(sha256.encode()).decode()}"
    headers = {"tus-resumable": "1.0.0", "upload-length": str(num_bytes), "upload-metadata": metadata}
    begun = client.request("POST", "api/v1/uploads", b"", headers).headers
    target = f"api/v1/uploads/{begun.get('location', '').rpartition('/')[2]}"
    offset, failures = _offset(client, begun, num_bytes), 0
    with path.open("rb") as stream:
        while offset < num_bytes:
            stream.seek(offset)
            data = stream.read(min(PIECE_BYTES, num_bytes - offset))
            if not data:
                raise OutputError(f"{path}: became shorter while it was sent")
            checksum = base64.b64encode(hashlib.sha256(data).digest()).decode()
            headers = {
                "tus-resumable": "1.0.0",
                "upload-offset": str(offset),
                "upload-checksum": f"sha256 {checksum}",
                "content-type": "application/offset+octet-stream",
            }
            try:
                client.request("PATCH", target, data, headers, retries=0)
                offset, failures = offset + len(data), 0
                say(f"{path.name}: {offset >> 20:,} of {num_bytes >> 20:,} MiB")
            except (UnreachableError, RefusedError) as error:
                if isinstance(error, RefusedError) and error.status != _CONFLICT:
                    raise
                failures += 1
                if failures > client.retries:
                    raise
                client.sleep(min(8.0, 0.5 * 2**failures))
                with contextlib.suppress(UnreachableError):
                    arrived = _arrived(client, target, num_bytes)
                    failures = 0 if arrived > offset else failures
                    offset = arrived


def _arrived(client: HttpClient, target: str, num_bytes: int) -> int:
    """Return how much of an upload has arrived; all of it, if the service has ended it."""
    try:
        headers = client.request("HEAD", target).headers
    except RefusedError as error:
        if error.status == 404:
            return num_bytes  # kept: whether it has the right digest, `finalise` says
        raise
    return _offset(client, headers, num_bytes)


def _offset(client: HttpClient, headers: Mapping[str, str], num_bytes: int) -> int:
    said = headers.get("upload-offset", "")
    found = int(said) if said.isascii() and said.isdigit() else None
    if not is_whole(found) or found > num_bytes:
        raise InputError(f"{client.root}: the service says that {printable(said)!r} bytes have arrived")
    return found
