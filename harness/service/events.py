"""The log: events are appended, in one order, and never changed; a Merkle tree over them is what checkpoints sign.

An event is appended in the transaction that does what it says, as its last statement: from then on no other can append
until this one is committed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from harness.errors import InputError
from harness.service import schema
from harness.transparency import event as leaves
from harness.transparency.event import Opening
from harness.transparency.tiles import WIDTH, nodes_of, tile_root, tile_width
from harness.transparency.tree import HASH_BYTES, Node

NO_LEAF = "0" * 64


@dataclass(frozen=True, slots=True)
class Appended:
    """An event in the log. leaf: its hash, hexadecimal."""

    seq: int
    leaf: str


@dataclass(frozen=True, slots=True)
class News:
    """An event to append. actor: the id of a person; None: the service itself."""

    kind: str
    subject: str
    body: Mapping[str, Any]
    actor: str | None = None


def append(connection: Connection, at_ms: int, news: News) -> Appended:
    """Append one event; see `append_all`."""
    return append_all(connection, at_ms, [news])[0]


def append_all(connection: Connection, at_ms: int, news: Iterable[News]) -> list[Appended]:
    """Append events in this order. Nothing else should follow in the transaction: all others wait for its end."""
    head = schema.log_head
    size, prev = connection.execute(
        select(head.c.size, head.c.leaf).where(head.c.id == 0).with_for_update()
    ).one()  # in SQLite the transaction is the only one that writes
    rows, found = [], []
    for item in news:
        text = leaves.event_text(size, at_ms, item.actor, item.kind, item.subject, item.body, prev)
        opening = Opening(size, secrets.token_hex(leaves.SALT_BYTES), text)
        prev = opening.leaf.hex()
        rows.append(
            {
                "seq": size, "at_ms": at_ms, "actor": item.actor, "kind": item.kind, "subject": item.subject,
                "document": text, "salt": opening.salt, "leaf": prev,
            }
        )  # fmt: skip
        found.append(Appended(size, prev))
        size += 1
    if rows:
        connection.execute(insert(schema.event), rows)
        connection.execute(update(head).where(head.c.id == 0).values(size=size, leaf=prev))
        first, last = found[0].seq, size
        if first // WIDTH != last // WIDTH:
            _complete_tiles(connection, first, last)
    return found


def _complete_tiles(connection: Connection, old_size: int, size: int) -> None:
    """Store the tiles that have become full, from the lowest level up."""
    level = 0
    while size >> (8 * level) >= WIDTH:
        for number in range((old_size >> (8 * level)) // WIDTH, (size >> (8 * level)) // WIDTH):
            hashes = _hashes(connection, level, number, WIDTH)
            root = tile_root(hashes).hex()
            connection.execute(insert(schema.tile).values(level=level, number=number, root=root, hashes=hashes))
        level += 1


def tile(connection: Connection, level: int, number: int, width: int) -> bytes:
    """Return the first `width` hashes of a tile; fewer if there are not as many."""
    full = connection.execute(
        select(schema.tile.c.hashes).where(schema.tile.c.level == level, schema.tile.c.number == number)
    ).scalar_one_or_none()
    return bytes(full)[: width * HASH_BYTES] if full is not None else _hashes(connection, level, number, width)


def _hashes(connection: Connection, level: int, number: int, width: int) -> bytes:
    start = number * WIDTH
    if level == 0:
        key = schema.event.c.seq
        query = select(schema.event.c.leaf)
    else:
        key = schema.tile.c.number
        query = select(schema.tile.c.root).where(schema.tile.c.level == level - 1)
    found = connection.execute(query.where(key >= start, key < start + width).order_by(key)).scalars()
    return b"".join(bytes.fromhex(item) for item in found)


def nodes(connection: Connection, size: int) -> Node:
    """Return the nodes of the tree of the first `size` events."""

    def fetch(level: int, number: int, width: int) -> bytes:
        assert width == tile_width(level, number, size)
        return tile(connection, level, number, width)

    return nodes_of(fetch, size)


def size(connection: Connection) -> int:
    """Return how many events there are."""
    return int(connection.execute(select(schema.log_head.c.size).where(schema.log_head.c.id == 0)).scalar_one())


def of_subject(connection: Connection, subject: str) -> list[Opening]:
    """Return the events about one thing, in their order."""
    table = schema.event
    rows = connection.execute(
        select(table.c.seq, table.c.salt, table.c.document).where(table.c.subject == subject).order_by(table.c.seq)
    )
    return [Opening(*row) for row in rows]


def all_events(connection: Connection) -> Iterator[Opening]:
    """Yield every event, in order."""
    yield from (Opening(row.seq, row.salt, row.document) for row in _rows(connection))


def _rows(connection: Connection, step: int = 1000) -> Iterator[Row[Any]]:
    """Yield the rows of all events, in order, some at a time."""
    start, table = 0, schema.event
    ordered = table.select().order_by(table.c.seq).limit(step)
    while rows := connection.execute(ordered.where(table.c.seq >= start)).all():
        yield from rows
        start = rows[-1].seq + 1


def faults(connection: Connection) -> Iterator[str]:
    """Yield what is wrong with the log as it is stored: each event against its leaf, each leaf against the next event.

    Tiles and head are compared with what the events make of them.
    """
    prev, count = NO_LEAF, 0
    for row in _rows(connection):
        opening = Opening(row.seq, row.salt, row.document)
        if opening.seq != count:
            yield f"event {count}: is missing"
            count = opening.seq
        try:
            event = leaves.parse_opening(opening.record(), f"event {opening.seq}").event
        except InputError as error:
            yield str(error)
            event = {}
        if opening.leaf.hex() != row.leaf:
            yield f"event {opening.seq}: is not what its leaf commits to"
        elif event.get("prev") != prev:
            yield f"event {opening.seq}: does not follow the event before it"
        for name in ("at_ms", "actor", "kind", "subject"):
            if event and event[name] != row._mapping[name]:
                said = f"{row._mapping[name]!r}, the event says {event[name]!r}"
                yield f"event {opening.seq}: its column {name} is {said}"
        prev, count = row.leaf, count + 1
    head = connection.execute(select(schema.log_head.c.size, schema.log_head.c.leaf)).one()
    if tuple(head) != (count, prev):
        yield f"the head says {head[0]:,} events; there are {count:,}, or the last is another"
    for level, number, root, hashes in connection.execute(select(schema.tile)):
        if bytes(hashes) != _hashes(connection, level, number, WIDTH) or tile_root(bytes(hashes)).hex() != root:
            yield f"tile {level}/{number}: is not what the events make of it"
    levels = [count >> 8 * level for level in range(1, 7)]
    num_tiles = connection.execute(select(func.count()).select_from(schema.tile)).scalar_one()
    if num_tiles != sum(levels):
        yield f"there are {num_tiles:,} tiles, not {sum(levels):,}"
