"""The service's checkpoints: signed statements of how many events there are, and under which root. Kept for good.

A statement that was handed out binds the service: `faults` compares every one of them with the events as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, select

from harness.base import ssh_signature
from harness.errors import InputError, UsageError, printable
from harness.service import events, schema
from harness.service.blobs import unless_there
from harness.service.instance import Instance
from harness.service.submissions import ConflictError, NotThereError
from harness.transparency.checkpoint import (
    COSIGN_NAMESPACE,
    MAX_BYTES,
    NAMESPACE,
    Checkpoint,
    SignedCheckpoint,
    parse_note,
)
from harness.transparency.tree import root

INTERVAL_MS = 1_000  # between two new ones: many events are in one
_checkpoint, _cosignature = schema.checkpoint, schema.cosignature
MAX_COSIGNATURE_BYTES = 2048  # one with a key of 4,096 bits has 1,600


def newest(instance: Instance) -> SignedCheckpoint:
    """Return the newest checkpoint, made now if there are new events and the last one is old enough."""
    now_ms = instance.now_ms()
    with instance.database.read() as connection:
        last = connection.execute(_checkpoint.select().order_by(_checkpoint.c.size.desc()).limit(1)).one_or_none()
        if last is not None and (last.at_ms > now_ms - INTERVAL_MS or events.size(connection) == last.size):
            return of_size(connection, last.size)
    with instance.database.write() as connection:
        size = events.size(connection)
        found = Checkpoint(instance.settings.origin, size, root(events.nodes(connection, size), size))
        note = SignedCheckpoint(found, (instance.key.sign(found.text.encode(), NAMESPACE),)).note
        statement = unless_there(connection.dialect, _checkpoint)
        connection.execute(statement.values(size=size, root=found.root.hex(), note=note, at_ms=now_ms))
        return of_size(connection, size)


def of_size(connection: Connection, size: int) -> SignedCheckpoint:
    """Return the checkpoint of this size, with the signatures of its witnesses.

    Raises:
        NotThereError: none was made at this size.
    """
    note = connection.execute(select(_checkpoint.c.note).where(_checkpoint.c.size == size)).scalar()
    if note is None:
        raise NotThereError(f"no checkpoint was made of {size:,} events")
    signed = parse_note(note.encode(), f"checkpoint {size}")
    query = select(_cosignature.c.signature).where(_cosignature.c.size == size).order_by(_cosignature.c.key)
    return SignedCheckpoint(signed.checkpoint, (*signed.signatures, *connection.execute(query).scalars()))


def add_cosignature(instance: Instance, witness: str, data: bytes) -> None:
    """Keep a witness's signature over one of the checkpoints: the note with it, as a witness sends it.

    Raises:
        InputError: it is no note. UsageError: its last signature is not a valid one of a witness.
        ConflictError: it is not what this service signed, this witness has signed it with another key, or there is no
            room for more signatures. NotThereError: no checkpoint was made at this size.
    """
    note = parse_note(data, "the cosignature")
    if not note.signatures:
        raise UsageError("the note has no signature")
    signature = note.signatures[-1].encode()
    with instance.database.read() as connection:
        known = of_size(connection, note.checkpoint.size)
    if known.checkpoint != note.checkpoint:
        raise ConflictError(
            f"the checkpoint of {note.checkpoint.size:,} events is another here: if this service signed both, it has "
            "shown two histories"
        )
    if len(signature) > MAX_COSIGNATURE_BYTES:
        raise UsageError(f"the signature has {len(signature):,} bytes; at most {MAX_COSIGNATURE_BYTES:,} are kept")
    try:
        parsed = ssh_signature.parse_signature(signature)
    except ValueError as error:
        raise UsageError(f"the signature: {error}") from None
    if parsed.namespace != COSIGN_NAMESPACE:
        raise UsageError(f"the signature is for {printable(parsed.namespace, 60)!r}, not for {COSIGN_NAMESPACE!r}")
    refusal = ssh_signature.refusal(known.checkpoint.text.encode(), signature, COSIGN_NAMESPACE)
    if refusal is not None:
        raise UsageError(f"the signature: {refusal.why}")
    with instance.database.write() as connection:
        known = of_size(connection, note.checkpoint.size)
        same = (_cosignature.c.size == note.checkpoint.size) & (_cosignature.c.witness == witness)
        other = connection.execute(select(_cosignature.c.key).where(same)).scalar()
        if other not in (None, parsed.key[:200]):
            raise ConflictError(f"{witness} has signed this checkpoint already, with {other}")
        if len(known.note) + len(signature) > MAX_BYTES:  # what a reader of notes accepts
            raise ConflictError("this checkpoint has as many signatures as a note can have; no more are kept")
        connection.execute(
            unless_there(connection.dialect, _cosignature).values(
                size=note.checkpoint.size, key=parsed.key[:200], witness=witness, signature=signature.decode(),
                at_ms=instance.now_ms(),
            )
        )  # fmt: skip


def faults(
    connection: Connection, instance: Instance, kept: Sequence[tuple[str, SignedCheckpoint]] = ()
) -> Iterator[str]:
    """Yield which checkpoints, as they were handed out, the events contradict, or have not the key's signature.

    kept: those that somebody has, each with its place: who can change the database can remove the service's own.
    """
    size = events.size(connection)
    notes = list(kept)
    for row in connection.execute(_checkpoint.select().order_by(_checkpoint.c.size)).all():
        place = f"checkpoint {row.size}"
        try:
            signed = parse_note(row.note.encode(), place)
        except InputError as error:
            yield str(error)
            continue
        notes.append((place, signed))
        if (row.size, row.root) != (signed.checkpoint.size, signed.checkpoint.root.hex()):
            yield f"{place}: its root is not that of the events that its note is of"
    for place, signed in notes:
        found = signed.checkpoint
        if found.size > size:
            yield f"{place}: is of more events than there are; was an older backup restored?"
        elif found.root != root(events.nodes(connection, found.size), found.size):
            yield f"{place}: its root is not that of the events"
        signature = signed.signatures[0].encode() if signed.signatures else b""
        signer = f"board {instance.key.public}\n".encode()
        refusal = ssh_signature.refusal(found.text.encode(), signature, NAMESPACE, signer, "board")
        if refusal is not None and not refusal.is_inconclusive:
            yield f"{place}: is not signed with the key of this service"
