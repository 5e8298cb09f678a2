"""The transparency log: checkpoints, tiles, proofs, and the events that are public."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import PlainTextResponse, Response

from harness.errors import UsageError
from harness.service import checkpoints, events, publication
from harness.service.api.dependencies import Submitter, TheInstance
from harness.service.submissions import NotThereError
from harness.transparency.checkpoint import MAX_BYTES
from harness.transparency.tiles import WIDTH, tile_path, tile_width
from harness.transparency.tree import consistency_proof, inclusion_proof

router = APIRouter(tags=["log"])
Size = Annotated[int, Query(ge=0, le=1 << 53)]


@router.get("/log/checkpoint", response_class=PlainTextResponse)
def newest(instance: TheInstance) -> str:
    """Return the newest checkpoint with its signatures."""
    return checkpoints.newest(instance).note


@router.get("/log/checkpoint/{size}", response_class=PlainTextResponse)
def of_size(instance: TheInstance, size: Annotated[int, Path(ge=0, le=1 << 53)]) -> str:
    """Return the checkpoint that was made of so many events."""
    with instance.database.read() as connection:
        return checkpoints.of_size(connection, size).note


@router.post("/log/cosignatures", status_code=204)
async def cosign(instance: TheInstance, actor: Submitter, request: Request) -> None:
    """Add your signature to a checkpoint: the note, with your signature as its last."""
    from fastapi.concurrency import run_in_threadpool

    data = b""
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_BYTES:
            raise UsageError(f"a note has at most {MAX_BYTES:,} bytes")
    await run_in_threadpool(checkpoints.add_cosignature, instance, actor.organisation_name, data)


@router.get("/log/tile/{place:path}")
def tile(instance: TheInstance, place: str) -> Response:
    """Return a tile by its path, as C2SP has them: `0/x001/x234/067`, `1/000.p/5`."""
    level, number, width = _place(place)
    size = checkpoints.newest(instance).checkpoint.size
    with instance.database.read() as connection:
        if not 0 < width <= tile_width(level, number, size):
            raise NotThereError(f"there is no tile {place} in a log of {size:,} events")
        data = events.tile(connection, level, number, width)
    kept = "public, max-age=31536000, immutable"
    return Response(data, media_type="application/octet-stream", headers={"cache-control": kept})


def _place(text: str) -> tuple[int, int, int]:
    parts = text.split("/")
    width = WIDTH
    if len(parts) > 2 and parts[-2].endswith(".p"):
        partial = parts.pop()
        parts[-1] = parts[-1].removesuffix(".p")
        width = int(partial) if partial.isascii() and partial.isdigit() and len(partial) <= 3 else 0
    groups = [item.removeprefix("x") for item in parts[1:]]
    if not all(item.isascii() and item.isdigit() and len(item) <= 3 for item in [parts[0], *groups]) or len(groups) > 6:
        raise NotThereError(f"there is no tile {text[:100]}")
    level, number = int(parts[0]), int("".join(groups) or "0")
    if level > 6 or f"tile/{text}" != tile_path(level, number, width):
        raise NotThereError(f"there is no tile {text[:100]}")
    return level, number, width


@router.get("/log/proof/inclusion")
def inclusion(instance: TheInstance, leaf: Size, size: Size) -> dict[str, Any]:
    """Return the proof that event number `leaf` is among the first `size`, and the hash of its leaf."""
    with instance.database.read() as connection:
        if not leaf < size <= events.size(connection):
            raise UsageError(f"leaf {leaf:,} of {size:,}: there are {events.size(connection):,} events")
        node = events.nodes(connection, size)
        return {"leaf": node(0, leaf).hex(), "proof": [item.hex() for item in inclusion_proof(node, leaf, size)]}


@router.get("/log/proof/consistency")
def consistency(
    instance: TheInstance,
    old: Annotated[int, Query(alias="from", ge=0, le=1 << 53)],
    size: Annotated[int, Query(alias="to", ge=0, le=1 << 53)],
) -> dict[str, Any]:
    """Return the proof that the log of `to` events begins with that of `from` events."""
    with instance.database.read() as connection:
        if not old <= size <= events.size(connection):
            raise UsageError(f"from {old:,} to {size:,}: there are {events.size(connection):,} events")
        proof = consistency_proof(events.nodes(connection, size), old, size)
    return {"proof": [item.hex() for item in proof]}


@router.get("/log/events")
def openings(
    instance: TheInstance, start: Size = 0, limit: Annotated[int, Query(ge=1, le=1000)] = 200
) -> dict[str, Any]:
    """Return public events from number `start`, each with the salt that opens its leaf."""
    with instance.database.read() as connection:
        found = publication.public_openings(connection, start, limit)
    return {
        "events": [item.record() for item in found],
        "next": found[-1].seq + 1 if len(found) == limit else None,
    }
