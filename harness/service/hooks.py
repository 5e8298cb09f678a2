"""Hooks: addresses that are sent what their organisation sees, event by event, and what became of each delivery.

The log is the outbox: what is owed is appended in the transaction that does what it says. `spread` makes a delivery of
each event for each hook whose organisation sees it then, and notes how far it came in the same transaction; nothing is
left out or made twice by a process that is killed. A delivery is sent until the receiver has said that it has it, so at
least once, always with the same id.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import SplitResult, urlsplit

from sqlalchemy import Connection, Row, delete, func, insert, or_, select, update

from harness.base.ids import new_id
from harness.errors import UsageError, printable
from harness.service import events, publication, schema
from harness.service.instance import Instance
from harness.service.people import HOUR_MS, NOBODY, Actor
from harness.service.settings import Hooks, is_secure
from harness.service.submissions import ConflictError, NotThereError

SECRET_PREFIX, TEST = "whsec_", "hook.test"
WAITING, DELIVERED, GIVEN_UP = "waiting", "delivered", "given up"
LEASE_MS = 60_000  # after which a delivery of a process that has ended is made again
# Until the next attempt. The last of ten is made about two days after the first.
BACKOFF_MS = tuple(int(minutes * 60_000) for minutes in (0.1, 1, 5, 30, 120, 300, 600, 840, 1200))
DISABLE_AFTER_MS = 5 * 24 * HOUR_MS  # without an answer of 2xx
OLD_SECRET_MS = 24 * HOUR_MS  # in which a receiver may learn the new one
KEPT_MS = 30 * 24 * HOUR_MS  # after the end of a delivery
MAX_BODY_BYTES = 1 << 16
MAX_URL = 500
_GONE, _STEP = 410, 500
_hook, _delivery, _event = schema.hook, schema.delivery, schema.event
# Of at most 253 characters: `socket.getaddrinfo` and `ssl` raise what is no OSError for other names.
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?")
Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Lease:
    """A delivery that this process makes. attempts: with this one. until_ms: by which nobody else makes it."""

    id: str
    hook: str
    url: str
    secrets: tuple[str, ...]
    organisation: str | None
    seq: int | None
    kind: str
    attempts: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an attempt. status: of the answer; None: there was none. reason: empty of one that succeeded."""

    reason: str
    status: int | None = None


# Addresses.


def require_url(settings: Hooks, url: str) -> SplitResult:
    """Return an address that hooks may have, as far as that can be said without looking its name up.

    Raises:
        UsageError: hooks are switched off; it is not https; it has more than host, port, path and query; or its host is
            not permitted.
    """
    if not settings.are_on:
        raise UsageError("this board has no hooks: its organisers permit no hosts and no networks in board.yaml")
    shown = f"{printable(url, 100)!r}"
    is_plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= MAX_URL
    if not is_plain or not is_secure(url):
        raise UsageError(f"{shown}: must be https://HOST/PATH, in at most {MAX_URL} characters without blanks")
    parts = urlsplit(url)
    try:
        is_extra = parts.username is not None or bool(parts.fragment) or parts.port == 0
    except ValueError:
        is_extra = True
    if is_extra:
        raise UsageError(f"{shown}: must have a port that there is, no user and no fragment")
    found = _literal(parts.hostname or "")
    if found is not None:
        require_address(settings, parts, found)
    elif not _HOST.fullmatch(parts.hostname or ""):
        raise UsageError(f"{shown}: its host must be a name or an address")
    elif not settings.networks and not _is_named(settings, parts):
        raise UsageError(f"{shown}: the organisers permit: {', '.join(settings.hosts)}")
    return parts


def require_address(settings: Hooks, parts: SplitResult, address: Address) -> None:
    """Raises:
    UsageError: an address, which is that of a name or given as such, may not be called.
    """
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    found = mapped or address
    if any(found in ip_network(item) for item in settings.networks):
        return
    if not _is_public(found) or not _is_named(settings, parts):
        raise UsageError(f"{printable(parts.hostname)} is {address}, which the organisers do not permit")


def _is_public(address: Address) -> bool:
    """Whether an address is everybody's, and no way to a private one."""
    if isinstance(address, IPv6Address):
        is_tunnel = address.sixtofour is not None or address.teredo is not None
        return address in ip_network("2000::/3") and address.is_global and not is_tunnel
    return address.is_global and not address.is_multicast


def _is_named(settings: Hooks, parts: SplitResult) -> bool:
    name = (parts.hostname or "").rstrip(".")
    permitted = [item.lower() for item in settings.hosts]
    return any(name.endswith(item) if item.startswith(".") else name == item for item in permitted)


def _literal(host: str) -> Address | None:
    try:
        return None if "%" in host else ip_address(host)
    except ValueError:
        return None


# Hooks.


def add(connection: Connection, instance: Instance, organisation: str | None, url: str) -> tuple[str, str]:
    """Add a hook of an organisation, or, with None, of the organisers for what is public; return its id and secret.

    Raises:
        UsageError: its address is not permitted. ConflictError: there are as many as there may be.
    """
    require_url(instance.settings.hooks, url)
    now_ms, limit, secret = instance.now_ms(), instance.settings.limits.max_hooks, _new_secret()
    if organisation is not None:  # two requests at once must not both find room
        table = schema.organisation
        connection.execute(select(table.c.id).where(table.c.id == organisation).with_for_update())
    count = connection.execute(select(func.count()).select_from(_hook).where(_owner(organisation))).scalar_one()
    if count >= limit:
        raise ConflictError(f"there are {count} hooks already; at most {limit}")
    found = new_id(now_ms)
    connection.execute(
        insert(_hook).values(
            id=found, organisation=organisation, url=url, secret=secret, next_seq=events.size(connection),
            busy_until_ms=0, created_ms=now_ms,
        )
    )  # fmt: skip
    return found, secret


def _owner(organisation: str | None) -> Any:
    return _hook.c.organisation.is_(None) if organisation is None else _hook.c.organisation == organisation


def _new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def of_actor(connection: Connection, actor: Actor) -> list[dict[str, Any]]:
    """Return the hooks that somebody keeps: their organisation's, and as an organiser those for what is public."""
    names = ("id", "url", "created_ms", "failing_since_ms", "disabled_ms", "reason")
    columns = (*(_hook.c[name] for name in names), _hook.c.organisation.is_(None).label("is_public"))
    rows = connection.execute(select(*columns).where(_kept_by(actor)).order_by(_hook.c.id)).mappings()
    return [{**row, "is_public": bool(row["is_public"])} for row in rows]


def everyone(connection: Connection) -> list[Row[Any]]:
    """Return id, organisation's name (None: for what is public), address and why it was disabled, of every hook."""
    table = schema.organisation
    query = select(_hook.c.id, table.c.name, _hook.c.url, _hook.c.reason)
    return list(connection.execute(query.select_from(_hook.outerjoin(table)).order_by(_hook.c.id)))


def _kept_by(actor: Actor) -> Any:
    own = _hook.c.organisation == actor.organisation
    return or_(own, _hook.c.organisation.is_(None)) if actor.is_organiser else own


def find(connection: Connection, actor: Actor | None, hook: str) -> str:
    """Return the id of a hook that `actor` keeps, and keep others from changing it. None: whoever is at the machine.

    Raises:
        NotThereError: there is none.
    """
    query = select(_hook.c.id).where(_hook.c.id == hook)
    query = query if actor is None else query.where(_kept_by(actor))
    found = connection.execute(query.with_for_update()).scalar()
    if found is None:
        raise NotThereError(f"there is no hook {printable(hook, 60)}")
    return str(found)


def remove(connection: Connection, hook: str) -> None:
    """Delete a hook with its deliveries."""
    connection.execute(delete(_delivery).where(_delivery.c.hook == hook))
    connection.execute(delete(_hook).where(_hook.c.id == hook))


def rotate(connection: Connection, hook: str, now_ms: int) -> str:
    """Give a hook a new secret and return it; for a day, the one before signs, too."""
    secret = _new_secret()
    values = {"secret": secret, "old_secret": _hook.c.secret, "old_until_ms": now_ms + OLD_SECRET_MS}
    connection.execute(update(_hook).where(_hook.c.id == hook).values(**values))
    return secret


def add_test(connection: Connection, hook: str, now_ms: int) -> str:
    """Have a hook sent something that says that it is a test; return the delivery's id.

    Raises:
        ConflictError: one waits already.
    """
    waits = (_delivery.c.hook == hook) & (_delivery.c.kind == TEST) & (_delivery.c.state == WAITING)
    if connection.execute(select(_delivery.c.id).where(waits).limit(1)).scalar() is not None:
        raise ConflictError("a test of this hook waits already")
    found = new_id(now_ms)
    connection.execute(insert(_delivery).values(**_new_delivery(found, hook, None, TEST, now_ms)))
    return found


def _new_delivery(id_: str, hook: str, seq: int | None, kind: str, now_ms: int) -> dict[str, Any]:
    return {
        "id": id_, "hook": hook, "seq": seq, "kind": kind, "state": WAITING, "attempts": 0,
        "next_ms": now_ms, "created_ms": now_ms,
    }  # fmt: skip


def deliveries(connection: Connection, hook: str, limit: int) -> list[dict[str, Any]]:
    """Return the newest deliveries of a hook."""
    names = ("id", "seq", "kind", "state", "attempts", "created_ms", "next_ms", "ended_ms", "status", "reason")
    query = select(*(_delivery.c[name] for name in names)).where(_delivery.c.hook == hook)
    rows = connection.execute(query.order_by(_delivery.c.id.desc()).limit(limit)).mappings()
    return [{**row, "next_ms": row["next_ms"] if row["state"] == WAITING else None} for row in rows]


def forget_old(connection: Connection, now_ms: int) -> None:
    """Forget the deliveries that ended a month ago."""
    connection.execute(delete(_delivery).where(_delivery.c.ended_ms < now_ms - KEPT_MS))


# Deliveries.


def viewer(organisation: str | None) -> Actor:
    """Return whom a hook is: a member of its organisation without another role; or nobody, who sees what is public."""
    if organisation is None:
        return NOBODY
    return Actor(person="", organisation=organisation, scopes=frozenset({"read"}))


def spread(instance: Instance) -> int:
    """Make deliveries of the events that were appended since the last time; return how many.

    What an organisation does not see when its turn comes, it is not sent later, either.
    """
    with instance.database.read() as connection:
        oldest = connection.execute(select(func.min(_hook.c.next_seq)).where(_hook.c.disabled_ms.is_(None))).scalar()
        if oldest is None or oldest >= events.size(connection):
            return 0
    with instance.database.write() as connection:
        size, now_ms, made = events.size(connection), instance.now_ms(), 0
        due = select(_hook).where(_hook.c.disabled_ms.is_(None), _hook.c.next_seq < size).order_by(_hook.c.id)
        for hook in connection.execute(due.with_for_update(skip_locked=True)).all():
            end = min(size, hook.next_seq + _STEP)
            query = select(_event.c.seq, _event.c.kind, _event.c.subject).order_by(_event.c.seq)
            rows = connection.execute(query.where(_event.c.seq >= hook.next_seq, _event.c.seq < end)).all()
            actor = viewer(hook.organisation)
            seen = [row for row in rows if publication.is_opened_to(connection, actor, row.kind, row.subject)]
            if seen:
                ids = sorted(new_id(now_ms) for _ in seen)  # they are sent and shown in the order of their events
                values = [
                    _new_delivery(id_, hook.id, row.seq, row.kind, now_ms) for id_, row in zip(ids, seen, strict=True)
                ]
                connection.execute(insert(_delivery), values)
            connection.execute(update(_hook).where(_hook.c.id == hook.id).values(next_seq=end))
            made += len(seen)
    return made


def claim(instance: Instance) -> Lease | None:
    """Take the delivery that is due for longest, of a hook that is being sent no other; None if none is due."""
    now_ms = instance.now_ms()
    due = (
        select(_delivery.c.id, _delivery.c.seq, _delivery.c.kind, _delivery.c.attempts, _hook)
        .join(_hook, _hook.c.id == _delivery.c.hook)
        .where(_delivery.c.state == WAITING, _delivery.c.next_ms <= now_ms, _hook.c.busy_until_ms <= now_ms)
        .order_by(_delivery.c.next_ms, _delivery.c.id)
        .limit(1)
    )
    with instance.database.read() as connection:
        if connection.execute(due).one_or_none() is None:
            return None
    with instance.database.write() as connection:
        row = connection.execute(due.with_for_update(skip_locked=True, of=[_delivery, _hook])).one_or_none()
        if row is None:
            return None
        delivery, seq, kind, attempts, hook, organisation, *_ = row
        until_ms = now_ms + LEASE_MS
        connection.execute(update(_hook).where(_hook.c.id == hook).values(busy_until_ms=until_ms))
        connection.execute(update(_delivery).where(_delivery.c.id == delivery).values(attempts=attempts + 1))
    found = [row.secret]
    if row.old_secret is not None and now_ms < row.old_until_ms:
        found.append(row.old_secret)
    return Lease(delivery, hook, row.url, tuple(found), organisation, seq, kind, attempts + 1, until_ms)


def content(instance: Instance, lease: Lease) -> bytes | None:
    """Return what is sent; None of an event that the organisation does not see any more."""
    if lease.seq is None:
        return _document(lease.kind, instance.now_ms(), {})
    with instance.database.read() as connection:
        row = connection.execute(select(_event).where(_event.c.seq == lease.seq)).one()
        if not publication.is_opened_to(connection, viewer(lease.organisation), row.kind, row.subject):
            return None
    data = {"seq": row.seq, "at_ms": row.at_ms, "subject": row.subject, "body": json.loads(row.document)["body"]}
    found = _document(row.kind, row.at_ms, data)
    return found if len(found) <= MAX_BODY_BYTES else _document(row.kind, row.at_ms, {**data, "body": None})


def _document(kind: str, at_ms: int, data: Mapping[str, Any]) -> bytes:
    timestamp = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return json.dumps({"type": kind, "timestamp": timestamp, "data": data}, ensure_ascii=False).encode()


def headers(lease: Lease, at_ms: int, body: bytes) -> Iterator[tuple[str, str]]:
    """Yield the headers by which a receiver knows who sends, and what it has been sent before.

    Source: Standard Webhooks 1.0.0.
    """
    at_s = str(at_ms // 1000)
    signed = b".".join((lease.id.encode(), at_s.encode(), body))
    keys = [base64.b64decode(secret.removeprefix(SECRET_PREFIX)) for secret in lease.secrets]
    signatures = [base64.b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys]
    yield "webhook-id", lease.id
    yield "webhook-timestamp", at_s
    yield "webhook-signature", " ".join(f"v1,{signature}" for signature in signatures)


def record(instance: Instance, lease: Lease, outcome: Outcome) -> None:
    """Note what became of an attempt, and what follows: the end, another attempt, or the end of the hook."""
    now_ms = instance.now_ms()
    with instance.database.write() as connection:
        hook = connection.execute(_hook.select().where(_hook.c.id == lease.hook).with_for_update()).one_or_none()
        if hook is None or hook.busy_until_ms != lease.until_ms:  # deleted meanwhile, or sent again by another
            return
        values: dict[str, Any] = {"status": outcome.status, "reason": outcome.reason or None}
        of_hook: dict[str, Any] = {"busy_until_ms": 0}
        if not outcome.reason:
            values |= {"state": DELIVERED, "ended_ms": now_ms}
            of_hook["failing_since_ms"] = None
            if hook.disabled_ms is not None:  # a test has arrived
                of_hook |= {"disabled_ms": None, "reason": None, "next_seq": events.size(connection)}
        else:
            since_ms = hook.failing_since_ms or now_ms
            of_hook["failing_since_ms"] = since_ms
            if hook.disabled_ms is not None or lease.attempts > len(BACKOFF_MS):
                values |= {"state": GIVEN_UP, "ended_ms": now_ms}
            else:
                values["next_ms"] = now_ms + BACKOFF_MS[lease.attempts - 1]
        connection.execute(update(_delivery).where(_delivery.c.id == lease.id).values(**values))
        connection.execute(update(_hook).where(_hook.c.id == lease.hook).values(**of_hook))
        is_over = outcome.status == _GONE or now_ms - (of_hook["failing_since_ms"] or now_ms) >= DISABLE_AFTER_MS
        if hook.disabled_ms is None and is_over:
            _disable(connection, lease.hook, outcome.reason, now_ms)


def _disable(connection: Connection, hook: str, why: str, now_ms: int) -> None:
    reason = printable(f"the hook was disabled: {why}", 500)
    connection.execute(update(_hook).where(_hook.c.id == hook).values(disabled_ms=now_ms, reason=reason))
    waiting = (_delivery.c.hook == hook) & (_delivery.c.state == WAITING)
    ended = {"state": GIVEN_UP, "reason": reason, "ended_ms": now_ms}
    connection.execute(update(_delivery).where(waiting).values(**ended))


def drop(instance: Instance, lease: Lease) -> None:
    """Note that a delivery is not made: its event is not seen any more."""
    with instance.database.write() as connection:
        ended = {"state": GIVEN_UP, "reason": "not for this organisation any more", "ended_ms": instance.now_ms()}
        connection.execute(update(_delivery).where(_delivery.c.id == lease.id).values(**ended))
        is_it = (_hook.c.id == lease.hook) & (_hook.c.busy_until_ms == lease.until_ms)
        connection.execute(update(_hook).where(is_it).values(busy_until_ms=0))
