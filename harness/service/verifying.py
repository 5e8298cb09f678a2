"""Whether a service is what it says: log, checkpoints, files, states and rows, each against what it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from harness.log.ticket import commitment_of
from harness.service import checkpoints, events, reindexing, schema
from harness.service.instance import Instance
from harness.service.states import TRANSITIONS, State
from harness.service.submitting import files_of, manifest_digest
from harness.submission import receipts
from harness.transparency.checkpoint import SignedCheckpoint

_BEGINNING = (State.DRAFT, 0)


def faults(
    instance: Instance,
    *,
    with_files: bool = True,
    is_judged: bool = True,
    kept: Sequence[tuple[str, SignedCheckpoint]] = (),
) -> Iterator[str]:
    """Yield what is wrong.

    with_files: every file is read and compared with its digest. is_judged: every result is judged again then, too.
    kept: checkpoints that somebody has, each with its place.

    Raises:
        OutputError: a result cannot be laid out.
    """
    with instance.database.snapshot() as connection:  # of one moment: the service may go on meanwhile
        log = list(events.faults(connection))
        yield from log
        yield from checkpoints.faults(connection, instance, kept)
        if not log:  # otherwise the events say nothing of the rows
            yield from _of_states(connection)
            yield from _of_rows(connection)
        found = list(_of_files(connection, instance, with_files=with_files))
        yield from found
    if with_files and is_judged and not found:
        yield from reindexing.differences(instance, is_mended=False)


def _of_states(connection: Connection) -> Iterator[str]:
    """Yield which submissions are not where their events lead."""
    reached: dict[str, tuple[State, int]] = {}  # by submission: the state, and the number of changes
    for opening in events.all_events(connection):
        event = opening.event
        submission, action = event["subject"], event["kind"].removeprefix("submission.")
        if action not in TRANSITIONS or not event["kind"].startswith("submission."):
            continue
        replayed, count = reached.get(submission, _BEGINNING)
        if event["body"].get("from") != replayed:
            said = event["body"].get("from")
            yield f"submission {submission}: event {opening.seq} changes it from {said}; it was {replayed}"
        reached[submission] = State(event["body"]["to"]), count + 1
    table = schema.submission
    rows = connection.execute(select(table.c.id, table.c.state, table.c.seq).order_by(table.c.id))
    for submission, state, seq in rows:
        replayed, count = reached.get(submission, _BEGINNING)
        if (replayed, count) != (state, seq):
            yield f"submission {submission}: is {state} after {seq} changes; its events say {replayed} after {count}"


Columns = dict[str, Any]


def _of_rows(connection: Connection) -> Iterator[str]:
    """Yield which rows of people, rounds, submissions, objections and witnessed runs are not what their events say."""
    said: dict[tuple[str, str], Columns] = {}
    for opening in events.all_events(connection):
        for table, subject, values in _said(opening.event):
            said.setdefault((table, subject), {}).update(values)
    for name in ("person", "round", "submission", "objection", "campaign", "ticket"):
        for row in connection.execute(schema.metadata.tables[name].select()).mappings():
            columns = said.pop((name, row["id"]), None)
            if columns is None:
                yield f"{name} {row['id']}: no event says that it was added"
                continue
            stored = {**row, "commitment": _commitment(row["secret"])} if name == "campaign" else row
            for column, value in columns.items():
                if stored[column] != value:
                    yield f"{name} {row['id']}: its {column} is {stored[column]!r}, its events say {value!r}"
    for name, missing in said:
        yield f"{name} {missing}: is missing; an event says that it was added"


def _commitment(secret: str) -> str | None:
    try:
        return commitment_of(bytes.fromhex(secret))
    except ValueError:
        return None


def _said(event: Mapping[str, Any]) -> Iterator[tuple[str, str, Columns]]:
    """Yield what an event says of columns: the table, the row's id, and the values."""
    subject, body, at_ms, actor = event["subject"], event["body"], event["at_ms"], event["actor"]
    match event["kind"]:
        case "round.added":
            yield "round", subject, body
        case "person.added":
            yield "person", subject, {"organisation": body["organisation"], "disabled_ms": None, **_roles(body)}
        case "person.roles_changed":
            yield "person", subject, _roles(body)
        case "person.disabled":
            yield "person", subject, {"disabled_ms": at_ms}
        case "submission.announced":
            unset = {"received_ms": None, "published_ms": None, "superseded_by": None}
            known = {"round": body["round"], "manifest_sha256": body["manifest_sha256"]}
            yield "submission", subject, {"person": actor, "created_ms": at_ms, **known, **unset}
        case "submission.renew":
            yield "submission", subject, {"round": body["round"]}
        case "submission.finalise":
            yield "submission", subject, {"received_ms": at_ms}
        case "submission.publish":
            yield "submission", subject, {"published_ms": at_ms}
        case "submission.superseded":
            yield "submission", subject, {"superseded_by": body["by"]}
        case "submission.object":
            place = {name: body[name] for name in ("rule", "path", "line")}
            undecided = {"state": "open", "decision": None, "decided_by": None, "decided_ms": None}
            made = {"submission": subject, "person": actor, "text": body["reason"], "opened_ms": at_ms}
            yield "objection", body["objection"], {**place, **made, **undecided}
        case "objection.decided" | "objection.withdrawn":
            decided = {"state": body["decision"], "decision": body["reason"], "decided_by": actor, "decided_ms": at_ms}
            yield "objection", body["objection"], decided
        case receipts.OPENED:
            columns = {name: value for name, value in body.items() if name != "organisation"}  # there by its name
            yield "campaign", subject, {"person": actor, "closed_ms": None, **columns}
        case receipts.CLOSED:
            yield "campaign", subject, {"closed_ms": at_ms}
        case receipts.ISSUED:
            yield "ticket", subject, {**body, "issued_ms": at_ms, "state": "issued", "num_heads": 0, "ended_ms": None}
        case receipts.HEAD:
            yield "ticket", subject, {"state": "started", "num_heads": body["number"]}
        case receipts.ENDED:
            yield "ticket", subject, {**body, "ended_ms": at_ms}


def _roles(body: Mapping[str, Any]) -> Columns:
    return {f"is_{role}": role in body["roles"] for role in ("auditor", "organiser")}


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
    for submission, manifest, num_bytes in connection.execute(
        select(table.c.id, table.c.manifest_sha256, table.c.num_bytes).order_by(table.c.id)
    ):
        files = files_of(connection, submission)
        if (manifest_digest(files), sum(item.num_bytes for item in files)) != (manifest, num_bytes):
            yield f"submission {submission}: its list of files is another than the one that was announced"
    holder = schema.blob_holder
    missing = (
        select(table.c.id, file.c.path)
        .join(file, file.c.submission == table.c.id)
        .outerjoin(holder, (holder.c.sha256 == file.c.sha256) & (holder.c.organisation == table.c.organisation))
        .where(holder.c.sha256.is_(None), table.c.state.not_in((State.DRAFT, State.WITHDRAWN)))
    )
    for submission, path in connection.execute(missing):
        yield f"submission {submission}: its file {path} was never sent"
