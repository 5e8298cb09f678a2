"""Submissions: announced, sent, ended with a receipt, read."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import IO, Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import ColumnElement, Connection, and_, select, true

from harness.base import strict_json
from harness.base.ids import ID_PATTERN
from harness.errors import OutputError, UsageError
from harness.service import blobs, history, schema, submissions, submitting
from harness.service.api.dependencies import AnyActor, Submitter, TheInstance
from harness.service.instance import Instance
from harness.service.people import Actor
from harness.service.states import WORDS, State
from harness.service.submissions import Submission
from harness.service.submitting import Announcement, ListedFile

router = APIRouter(tags=["submissions"])
MAX_HEAD = 1 << 20
MAX_SPOOLED = 1 << 18


class FileModel(BaseModel):
    """A file of a submission: its path in the tree, its SHA-256 and its size."""

    model_config = ConfigDict(extra="forbid", strict=True)
    path: str = Field(max_length=submitting.MAX_PATH)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    bytes: int = Field(ge=0, le=1 << 53)


class AnnouncementModel(BaseModel):
    """The list of all files of a submission. round may be left out where only one is open."""

    model_config = ConfigDict(extra="forbid", strict=True)
    files: list[FileModel] = Field(min_length=1, max_length=10_000)
    round: str | None = Field(None, max_length=100)
    supersedes: str | None = Field(None, max_length=32)


@router.post("/submissions", status_code=201)
def announce(
    instance: TheInstance,
    actor: Submitter,
    body: AnnouncementModel,
    response: Response,
    idempotency_key: Annotated[str | None, Header(max_length=200)] = None,
) -> dict[str, Any]:
    """Announce a submission; the answer says which files the service lacks. 200: it was announced before."""
    files = tuple(ListedFile(item.path, item.sha256, item.bytes) for item in body.files)
    what = Announcement(files, body.round, body.supersedes, idempotency_key)
    found = submitting.announce(instance, actor, what)
    response.status_code = 201 if found.is_new else 200
    missing = [{"path": item.path, "sha256": item.sha256, "bytes": item.num_bytes} for item in found.missing]
    return {**record(found.submission), "missing": missing}


@router.post("/submissions/{submission}/files", status_code=204)
async def add_files(instance: TheInstance, actor: Submitter, submission: str, request: Request) -> None:
    """Take some of the submission's files in one request.

    The body is a line of JSON, the list of their digests, and then their bytes, one file after the other, each as long
    as was announced. What has arrived meanwhile, with another submission of this team, is compared and kept as it is.
    """
    wanted = await run_in_threadpool(_files, instance, actor, submission)
    pieces = request.stream().__aiter__()
    head, rest = await _line(pieces)
    listed = _listed(head, wanted, instance.settings.limits.max_bundle_bytes)
    left = sum(item.num_bytes for item in listed)
    # On the disk, unless it is small: many may arrive at once, and some never end.
    with tempfile.SpooledTemporaryFile(MAX_SPOOLED, dir=str(instance.blobs.incoming)) as data:
        async for piece in _with(rest, pieces):
            left -= len(piece)
            if left < 0:
                raise UsageError("more than the bytes of the files that the first line lists")
            await run_in_threadpool(_write, data, piece)
        await run_in_threadpool(_keep, instance, actor, listed, data)


async def _with(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


def _write(stream: IO[bytes], data: bytes) -> None:
    try:
        stream.write(data)
    except OSError as error:
        raise OutputError(f"the files cannot be written: {error.strerror}") from None


async def _line(pieces: AsyncIterator[bytes]) -> tuple[bytes, bytes]:
    data = b""
    async for piece in pieces:
        data += piece
        line, end, rest = data.partition(b"\n")
        if end:
            return line, rest
        if len(data) > MAX_HEAD:
            break
    raise UsageError("the first line must be the list of the files' digests, as JSON")


def _files(instance: Instance, actor: Actor, submission: str) -> list[ListedFile]:
    with instance.database.read() as connection:
        return submitting.files_of(connection, _draft(connection, actor, submission).id)


def _draft(connection: Connection, actor: Actor, submission: str) -> Submission:
    """Return a submission that this actor may still send files for."""
    found = submissions.find(connection, submission, actor)
    submissions.require_allowed(connection, "finalise", found, actor)
    return found


def _listed(head: bytes, wanted: Sequence[ListedFile], max_bytes: int) -> list[ListedFile]:
    try:
        digests = strict_json.loads(head)
    except ValueError as error:
        raise UsageError(f"the first line is not JSON: {error}") from None
    by_digest = {item.sha256: item for item in wanted}
    if not isinstance(digests, list) or not all(isinstance(item, str) for item in digests):
        raise UsageError("the first line must be a list of digests")
    if len(set(digests)) != len(digests):
        raise UsageError("the first line has a digest twice")
    unknown = next((item for item in digests if item not in by_digest), None)
    if unknown is not None:
        raise UsageError(f"{unknown[:64]}: is not among the files of the submission")
    found = [by_digest[item] for item in digests]
    total = sum(item.num_bytes for item in found)
    if total > max_bytes:
        raise UsageError(f"{total:,} bytes in one request; at most {max_bytes:,}: send larger files by /uploads")
    return found


def _keep(instance: Instance, actor: Actor, listed: Sequence[ListedFile], data: IO[bytes]) -> None:
    data.seek(0)
    for item in listed:
        instance.blobs.add(item.sha256, item.num_bytes, _pieces(data, item.num_bytes))
    with instance.database.write() as connection:
        found = [(item.sha256, item.num_bytes) for item in listed]
        blobs.note_held(connection, actor.organisation, found, instance.now_ms())


def _pieces(data: IO[bytes], num_bytes: int) -> Iterator[bytes]:
    while piece := data.read(min(num_bytes, 1 << 20)):
        num_bytes -= len(piece)
        yield piece


@router.get("/submissions/{submission}/missing")
def missing(instance: TheInstance, actor: Submitter, submission: str) -> dict[str, Any]:
    """Return which files of an own submission are still missing."""
    with instance.database.read() as connection:
        wanted = submitting.missing_of(connection, _draft(connection, actor, submission))
    return {"missing": [{"path": item.path, "sha256": item.sha256, "bytes": item.num_bytes} for item in wanted]}


@router.post("/submissions/{submission}/finalise", status_code=202)
def finalise(instance: TheInstance, actor: Submitter, submission: str) -> dict[str, Any]:
    """End a submission whose files are all there; the answer is its receipt."""
    return submitting.finalise(instance, actor, submission).record()


@router.get("/submissions/{submission}")
def read(instance: TheInstance, actor: AnyActor, submission: str) -> dict[str, Any]:
    """Return a submission: its state, what was found, and how it came there."""
    with instance.database.read() as connection:
        found = submissions.find(connection, submission, actor)
        return {**record(found), **history.of(connection, actor, found)}


@router.get("/submissions")
def listing(
    instance: TheInstance,
    actor: AnyActor,
    state: State | None = None,
    round: Annotated[str | None, Query(max_length=100)] = None,
    benchmark: Annotated[str | None, Query(max_length=200)] = None,
    mine: bool = False,
    after: Annotated[str | None, Query(max_length=60)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> dict[str, Any]:
    """Return the submissions that you see, what changed last first. after: `next` of the answer before."""
    table = schema.submission
    conditions: list[ColumnElement[bool]] = [true()]
    conditions += [table.c.state == state] if state is not None else []
    conditions += [table.c.benchmark == benchmark] if benchmark is not None else []
    conditions += [table.c.organisation == actor.organisation] if mine else []
    if round is not None:
        conditions.append(table.c.round.in_(select(schema.round.c.id).where(schema.round.c.name == round)))
    with instance.database.read() as connection:
        found = submissions.page(connection, actor, limit, cursor(after), and_(*conditions))
    last = found[-1] if len(found) == limit else None
    return {
        "submissions": [record(item) for item in found],
        "next": None if last is None else f"{last.changed_ms}.{last.id}",
    }


def cursor(text: str | None) -> tuple[int, str] | None:
    """Return time and id of the last submission that was seen, as `next` of an answer has them.

    Raises:
        UsageError: it is no such text.
    """
    if text is None:
        return None
    at_ms, _, last = text.partition(".")
    if not at_ms.isascii() or not at_ms.isdigit() or len(at_ms) > 15 or not ID_PATTERN.fullmatch(last):
        raise UsageError(f"after: {text!r} is not what an answer gave as `next`")
    return int(at_ms), last


@router.post("/submissions/{submission}/withdraw")
def withdraw(instance: TheInstance, actor: Submitter, submission: str) -> dict[str, Any]:
    """Withdraw an own submission that is not published. Tickets that it used are not given back."""
    with instance.database.write() as connection:
        found = submissions.locked(connection, submission, actor)
        submissions.change(connection, "withdraw", found, actor, instance.now_ms())
        return record(submissions.find(connection, submission, actor))


@router.get("/submissions/{submission}/receipt")
def receipt(instance: TheInstance, actor: Submitter, submission: str) -> dict[str, Any]:
    """Return the receipt of an own submission again."""
    with instance.database.read() as connection:
        found = submissions.find(connection, submission, actor)
        return submitting.own_receipt(connection, instance, found, actor).record()


@router.get("/submissions/{submission}/files")
def files(instance: TheInstance, actor: AnyActor, submission: str) -> dict[str, Any]:
    """Return the list of a submission's files."""
    with instance.database.read() as connection:
        found = submissions.find(connection, submission, actor)
        listed = submitting.files_of(connection, found.id)
    return {"files": [{"path": item.path, "sha256": item.sha256, "bytes": item.num_bytes} for item in listed]}


@router.get("/submissions/{submission}/files/{path:path}")
def file(instance: TheInstance, actor: AnyActor, submission: str, path: str) -> FileResponse:
    """Return one of a submission's files."""
    with instance.database.read() as connection:
        found = submissions.find(connection, submission, actor)
        return submitting.file_response(instance, found, submitting.files_of(connection, found.id), path)


def record(found: Submission) -> dict[str, Any]:
    """Return a submission for machines."""
    return {
        "id": found.id,
        "state": found.state,
        "words": WORDS[found.state],
        "organisation": found.organisation_name,
        "benchmark": found.benchmark,
        "division": found.division or None,
        "system": found.system,
        "accelerator": found.accelerator or None,
        "manifest_sha256": found.manifest_sha256,
        "bytes": found.num_bytes,
        "created_ms": found.created_ms,
        "received_ms": found.received_ms,
        "published_ms": found.published_ms,
        "supersedes": found.supersedes,
        "superseded_by": found.superseded_by,
    }
