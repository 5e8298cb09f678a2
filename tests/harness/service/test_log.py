"""The log: what is appended is provable from any checkpoint, reveals nothing, and cannot be changed unseen."""

from __future__ import annotations

import itertools

import pytest
from sqlalchemy import update

from harness.base import ssh_signature
from harness.service import checkpoints, events, schema, verifying
from harness.service.events import News
from harness.transparency import tree
from harness.transparency.checkpoint import COSIGN_NAMESPACE, NAMESPACE, SignedCheckpoint, parse_note
from harness.transparency.event import parse_opening
from harness.transparency.tiles import HEIGHT, nodes_of, tile_path
from tests.harness.service.world import World
from tests.rules import signing


def append(world: World, count: int) -> None:
    with world.instance.database.write() as connection:
        news = [News("test.event", f"s{number}", {"n": number}) for number in range(count)]
        events.append_all(connection, world.instance.now_ms(), news)


def note_of(world: World) -> SignedCheckpoint:
    world.time.advance(0.001)
    return parse_note(world.client.get("/api/v1/log/checkpoint").content, "here")


def test_checkpoints_are_signed_by_the_service(small: World) -> None:
    """As ssh-keygen has it; the same while there is nothing new."""
    note = note_of(small)
    key = small.client.get("/api/v1/key").json()["public_key"]

    again = note_of(small)
    message, signature = note.checkpoint.text.encode(), note.signatures[0].encode()

    assert again == note
    assert ssh_signature.refusal(message, signature, NAMESPACE, f"b {key}\n".encode(), "b") is None
    size = note.checkpoint.size
    assert small.client.get(f"/api/v1/log/checkpoint/{size}").text == note.note
    assert small.client.get(f"/api/v1/log/checkpoint/{size + 1}").status_code == 404


def test_every_event_and_every_two_checkpoints_are_provable(unreviewed: World) -> None:
    """By the interface's proofs, and by its tiles alone, beyond the edge of a tile."""
    world = unreviewed
    notes = [note_of(world)]
    for count in (1, 100, 200, 300):
        append(world, count)
        notes.append(note_of(world))

    for old, new in itertools.combinations(notes, 2):
        params = {"from": old.checkpoint.size, "to": new.checkpoint.size}
        proof = world.client.get("/api/v1/log/proof/consistency", params=params).json()["proof"]
        assert tree.continues(
            old.checkpoint.size, old.checkpoint.root, new.checkpoint.size, new.checkpoint.root,
            [bytes.fromhex(item) for item in proof],
        )  # fmt: skip
    newest = notes[-1].checkpoint
    for leaf in (0, 255, 256, newest.size - 1):
        found = world.client.get("/api/v1/log/proof/inclusion", params={"leaf": leaf, "size": newest.size}).json()
        proof = [bytes.fromhex(item) for item in found["proof"]]
        assert tree.includes(bytes.fromhex(found["leaf"]), leaf, newest.size, proof, newest.root)

    def fetch(level: int, number: int, width: int) -> bytes:
        answer = world.client.get(f"/api/v1/log/{tile_path(level, number, width)}")
        assert answer.status_code == 200, answer.text
        return answer.content

    assert tree.root(nodes_of(fetch, newest.size), newest.size) == newest.root
    assert newest.size > 2**HEIGHT


@pytest.mark.parametrize(
    "place", ["0/001", "9/000", "0/x000/000", "0/000.p/256", "0/000.p/0", "0/0", "x", "0/-1", "0/000.p/999"]
)
def test_tiles_that_are_not_there(small: World, place: str) -> None:
    """Other paths than those of the tree's tiles are not found."""
    assert small.client.get(f"/api/v1/log/tile/{place}").status_code == 404


def test_public_events_can_be_opened_and_others_cannot(reviewed: World) -> None:
    """The openings are those of rounds and of what is published; each is the leaf of its number."""
    world = reviewed
    submission = world.submit(world.alice)
    world.work()
    before = world.client.get("/api/v1/log/events").json()["events"]
    answer = world.olga.post(f"/submissions/{submission}/actions/accept", json={"reason": "fine"})
    assert answer.status_code == 200
    world.work()
    after = world.client.get("/api/v1/log/events").json()["events"]

    size = note_of(world).checkpoint.size
    assert {parse_opening(item, "x").event["kind"] for item in before} == {"round.added"}
    assert submission in {parse_opening(item, "x").event["subject"] for item in after}
    for item in after:
        opening = parse_opening(item, "x")
        found = world.client.get("/api/v1/log/proof/inclusion", params={"leaf": opening.seq, "size": size}).json()
        assert opening.leaf.hex() == found["leaf"]


@pytest.mark.parametrize("column", ["document", "salt", "leaf", "kind", "subject", "at_ms"])
def test_one_altered_byte_is_found(small: World, column: str) -> None:
    """In any column of any event, and the removal of one, too."""
    small.submit(small.alice)
    small.work()
    note_of(small)
    with small.instance.database.read() as connection:
        assert list(verifying.faults(small.instance, with_files=False)) == []
        size = events.size(connection)
    for seq in range(size):
        with small.instance.database.write() as connection:
            table = schema.event
            before = connection.execute(table.select().where(table.c.seq == seq)).mappings().one()[column]
            changed = before + 1 if isinstance(before, int) else flipped(before)
            connection.execute(update(table).where(table.c.seq == seq).values({column: changed}))
        assert list(verifying.faults(small.instance, with_files=False)), f"{column} of event {seq}"
        with small.instance.database.write() as connection:
            connection.execute(update(table).where(table.c.seq == seq).values({column: before}))
    with small.instance.database.write() as connection:
        connection.execute(schema.event.delete().where(schema.event.c.seq == size - 1))
    assert any("the head says" in fault for fault in verifying.faults(small.instance, with_files=False))


def flipped(text: str) -> str:
    """The text with another digit or letter at its first place where there is one."""
    at = next(index for index, char in enumerate(text) if char.isalnum())
    return text[:at] + ("1" if text[at] != "1" else "2") + text[at + 1 :]


def test_a_witness_signs_what_it_has_seen(small: World) -> None:
    """Its signature is kept and shown; one over another checkpoint, or for another purpose, is refused."""
    note = note_of(small)
    text = note.checkpoint.text.encode()
    key = signing.key("bits")

    def cosigned(namespace: str, message: bytes) -> bytes:
        signature = ssh_signature.sign(message, key, namespace, "--key").decode()
        return SignedCheckpoint(note.checkpoint, (*note.signatures, signature)).note.encode()

    def status(data: bytes) -> int:
        return small.bob.post("/log/cosignatures", content=data).status_code

    assert status(cosigned(NAMESPACE, text)) == 422
    assert status(cosigned(COSIGN_NAMESPACE, text + b"x")) == 422
    assert status(b"nonsense") == 422
    other = note.note.encode().replace(b"\n1\n", b"\n2\n").replace(note.checkpoint.text.encode()[:4], b"xxxx", 1)
    assert status(other) in (404, 409)
    assert status(cosigned(COSIGN_NAMESPACE, text)) == 204
    size = note.checkpoint.size
    shown = parse_note(small.client.get(f"/api/v1/log/checkpoint/{size}").content, "x")
    assert len(shown.signatures) == 2


def test_checkpoints_bind_the_service(small: World) -> None:
    """One that was handed out and that the events contradict is found."""
    note_of(small)
    with small.instance.database.write() as connection:
        connection.execute(update(schema.checkpoint).values(root="0" * 64))

    with small.instance.database.read() as connection:
        found = list(checkpoints.faults(connection, small.instance))

    assert any("its root is not that of the events" in fault for fault in found)
