"""Whether a service is what it says: log, checkpoints, files, states and rows, each against what it comes from."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, select

from harness.service import checkpoints, events, reindexing, schema
from harness.service.instance import Instance
from harness.service.states import TRANSITIONS, State


def faults(instance: Instance, *, with_files: bool = True) -> Iterator[str]:
    """Yield what is wrong. with_files: every file is read and compared with its digest, and every result judged again.

    Raises:
        OutputError: a result cannot be laid out.
    """
    with instance.database.snapshot() as connection:  # of one moment: the service may go on meanwhile
        yield from events.faults(connection)
        yield from checkpoints.faults(connection, instance)
        yield from _of_states(connection)
        found = list(_of_files(connection, instance, with_files=with_files))
        yield from found
    if with_files and not found:
        yield from reindexing.differences(instance, is_mended=False)


def _of_states(connection: Connection) -> Iterator[str]:
    """Yield which submissions are not where their events lead."""
    table = schema.submission
    for submission, state, seq in connection.execute(
        select(table.c.id, table.c.state, table.c.seq).order_by(table.c.id)
    ):
        replayed, count = State.DRAFT, 0
        for opening in events.of_subject(connection, submission):
            event = opening.event
            action = event["kind"].removeprefix("submission.")
            if action not in TRANSITIONS or not event["kind"].startswith("submission."):
                continue
            if event["body"].get("from") != replayed:
                said = event["body"].get("from")
                yield f"submission {submission}: event {opening.seq} changes it from {said}; it was {replayed}"
            replayed, count = State(event["body"]["to"]), count + 1
        if (replayed, count) != (state, seq):
            yield f"submission {submission}: is {state} after {seq} changes; its events say {replayed} after {count}"


def _of_files(connection: Connection, instance: Instance, *, with_files: bool) -> Iterator[str]:
    for sha256, num_bytes in connection.execute(select(schema.blob.c.sha256, schema.blob.c.num_bytes)):
        path = instance.blobs.path(sha256)
        if not path.is_file():
            yield f"{path}: is missing"
        elif path.stat().st_size != num_bytes:
            yield f"{path}: has {path.stat().st_size:,} bytes, not {num_bytes:,}"
        elif with_files and (why := instance.blobs.matches(path, sha256, num_bytes)) is not None:
            yield f"{path}: {why}"
    table, file = schema.submission, schema.submission_file
    holder = schema.blob_holder
    missing = (
        select(table.c.id, file.c.path)
        .join(file, file.c.submission == table.c.id)
        .outerjoin(holder, (holder.c.sha256 == file.c.sha256) & (holder.c.organisation == table.c.organisation))
        .where(holder.c.sha256.is_(None), table.c.state.not_in((State.DRAFT, State.WITHDRAWN)))
    )
    for submission, path in connection.execute(missing):
        yield f"submission {submission}: its file {path} was never sent"
