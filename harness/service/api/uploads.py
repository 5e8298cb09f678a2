"""Resumable uploads of large files: tus 1.0."""

from __future__ import annotations

import base64
import binascii
from email.utils import formatdate
from typing import Annotated

from fastapi import APIRouter, Header, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool

from harness.errors import UsageError
from harness.service import uploads
from harness.service.api.dependencies import Submitter, TheInstance
from harness.service.submitting import SHA256_PATTERN
from harness.service.uploads import Upload

router = APIRouter(tags=["uploads"])
VERSION = "1.0.0"
_CHECKSUM_MISMATCH = 460  # tus's own
_HEADERS = {"tus-resumable": VERSION, "cache-control": "no-store"}


def _require_version(said: str | None) -> None:
    if said != VERSION:
        raise HTTPException(412, f"this is tus {VERSION}; send `Tus-Resumable: {VERSION}`", {"tus-version": VERSION})


def _metadata(text: str) -> dict[str, str]:
    """Return the names and values in an `Upload-Metadata`."""
    found = {}
    for item in text.split(","):
        name, _, value = item.strip().partition(" ")
        try:
            found[name] = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise UsageError("Upload-Metadata: a value is not base64 of a text") from None
    return found


def _checksum(text: str | None) -> bytes | None:
    if text is None:
        return None
    name, _, value = text.partition(" ")
    if name != "sha256":
        raise UsageError("Upload-Checksum: only sha256 is known here")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise UsageError("Upload-Checksum: not base64") from None


def _described(upload: Upload) -> dict[str, str]:
    return {
        **_HEADERS,
        "upload-offset": str(upload.offset),
        "upload-length": str(upload.num_bytes),
        "upload-expires": formatdate(upload.expires_ms / 1000, usegmt=True),
    }


@router.options("/uploads", status_code=204)
def options() -> Response:
    """Return what this server knows of tus."""
    extensions = "creation,expiration,checksum,termination"
    headers = {"tus-version": VERSION, "tus-extension": extensions, "tus-checksum-algorithm": "sha256"}
    return Response(status_code=204, headers={**_HEADERS, **headers})


@router.post("/uploads", status_code=201)
def create(
    instance: TheInstance,
    actor: Submitter,
    upload_length: Annotated[int, Header(ge=0)],
    upload_metadata: Annotated[str, Header(max_length=1000)],
    tus_resumable: Annotated[str | None, Header()] = None,
) -> Response:
    """Begin an upload, or go on with that of the same file: `Upload-Offset` says how much of it has arrived.

    Its metadata must have `sha256`: the digest of the file, in hexadecimal.
    """
    _require_version(tus_resumable)
    digest = _metadata(upload_metadata).get("sha256", "")
    if not SHA256_PATTERN.fullmatch(digest):
        raise UsageError("Upload-Metadata: needs sha256, the digest of the file")
    found = uploads.create(instance, actor, digest, upload_length)
    location = f"{instance.settings.url}api/v1/uploads/{found.id}"
    return Response(status_code=201, headers={**_described(found), "location": location})


@router.head("/uploads/{upload}")
def head(instance: TheInstance, actor: Submitter, upload: str) -> Response:
    """Return how much has arrived. If it is all, it is kept, as a service that was killed then has not done."""
    found = uploads.find(instance, actor, upload)
    uploads.complete_if_whole(instance, actor, found)
    return Response(status_code=200, headers=_described(found))


@router.patch("/uploads/{upload}", status_code=204)
async def patch(
    instance: TheInstance,
    actor: Submitter,
    upload: str,
    request: Request,
    upload_offset: Annotated[int, Header(ge=0)],
    content_type: Annotated[str, Header()] = "",
    upload_checksum: Annotated[str | None, Header(max_length=200)] = None,
    tus_resumable: Annotated[str | None, Header()] = None,
) -> Response:
    """Append bytes at the offset; 409 if it is another. The last ones complete the file, whose digest must be right."""
    _require_version(tus_resumable)
    if content_type != "application/offset+octet-stream":
        raise HTTPException(415, "the body must be application/offset+octet-stream")
    found = await run_in_threadpool(uploads.find, instance, actor, upload)
    with uploads.appending(instance, found, upload_offset, _checksum(upload_checksum)) as piece:
        async for data in request.stream():
            await run_in_threadpool(piece.write, data)
    if not piece.is_as_said:
        raise HTTPException(_CHECKSUM_MISMATCH, "the bytes have another checksum; none of them was kept")
    await run_in_threadpool(uploads.complete_if_whole, instance, actor, found)
    return Response(status_code=204, headers={**_described(found), "upload-offset": str(piece.offset)})


@router.delete("/uploads/{upload}", status_code=204)
def delete(instance: TheInstance, actor: Submitter, upload: str) -> Response:
    """End an upload and forget what has arrived."""
    uploads.remove(instance, actor, upload)
    return Response(status_code=204, headers=_HEADERS)
