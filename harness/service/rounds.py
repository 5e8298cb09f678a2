"""Rounds: which results belong together, by which rules, and when they are opened, reviewed and published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert, or_, select
from sqlalchemy.exc import IntegrityError

from harness.errors import UsageError, printable
from harness.service import editions, events, jobs, schema, submissions
from harness.service.events import News
from harness.service.instance import Instance
from harness.service.people import Actor
from harness.service.states import State
from harness.submission.layout import NAME_PATTERN

_round, _submission = schema.round, schema.submission


@dataclass(frozen=True, slots=True)
class Timetable:
    """When a round opens and closes, until when objections are taken, and when its results are published.

    None: at no set time. A round that does not close takes, reviews and publishes each result as it comes.
    """

    opens_ms: int
    closes_ms: int | None = None
    objections_until_ms: int | None = None
    publish_ms: int | None = None


def add_round(
    connection: Connection,
    instance: Instance,
    name: str,
    ruleset: str,
    timetable: Timetable,
    actor: Actor | None,
    *,
    is_reviewed: bool,
) -> str:
    """Add a round, with its event, and return its id.

    Raises:
        UsageError: there is one of that name; the ruleset is none of this service's; the times are not in order.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise UsageError(f"round {printable(name)!r}: at most 100 letters, digits and . _ + -")
    times = [timetable.opens_ms, timetable.closes_ms, timetable.objections_until_ms, timetable.publish_ms]
    known = [at_ms for at_ms in times if at_ms is not None]
    if known != sorted(known):
        raise UsageError(f"round {name}: it must open, close, end its objections and be published in this order")
    found, now_ms, digest = instance.new_id(), instance.now_ms(), instance.ruleset(ruleset).digest
    values = {
        "name": name, "ruleset": ruleset, "ruleset_digest": digest, "is_reviewed": is_reviewed,
        "opens_ms": timetable.opens_ms, "closes_ms": timetable.closes_ms,
        "objections_until_ms": timetable.objections_until_ms, "publish_ms": timetable.publish_ms,
    }  # fmt: skip
    try:
        connection.execute(insert(_round).values(id=found, created_ms=now_ms, **values))
    except IntegrityError:
        raise UsageError(f"round {name}: there is one of this name") from None
    editions.begin(connection)  # the tables that are shown first are those by the rules of the newest round
    events.append(connection, now_ms, News("round.added", found, values, None if actor is None else actor.person))
    return found


def open_at(connection: Connection, now_ms: int) -> list[Row[Any]]:
    """Return the rounds that take submissions, by name."""
    is_open = (_round.c.opens_ms <= now_ms) & or_(_round.c.closes_ms.is_(None), _round.c.closes_ms > now_ms)
    return list(connection.execute(select(_round).where(is_open).order_by(_round.c.name)).all())


def advance(instance: Instance, round_id: str) -> None:
    """Do what the clock does in a round, one submission after the other; done again, it does nothing.

    Unreviewed: what is valid is published, at `publish_ms` if there is such a day. Reviewed: what is valid comes under
    review when the round has closed (at once in one that does not close), and what was accepted is published at
    `publish_ms` (at once without it).
    """
    now_ms = instance.now_ms()
    with instance.database.read() as connection:
        row = connection.execute(select(_round).where(_round.c.id == round_id)).one()
    may_publish = row.publish_ms is None or row.publish_ms <= now_ms
    if not row.is_reviewed:
        steps = [(State.CHECKED, "publish")] if may_publish else []
    else:
        is_closed = row.closes_ms is None or row.closes_ms <= now_ms
        steps = [(State.CHECKED, "open_review")] if is_closed else []
        steps += [(State.ACCEPTED, "publish")] if may_publish else []
    for state, action in steps:
        with instance.database.read() as connection:
            is_due = (_submission.c.round == round_id) & (_submission.c.state == state)
            waiting = connection.execute(select(_submission.c.id).where(is_due).order_by(_submission.c.id)).scalars()
            found = list(waiting)
        for submission in found:
            with instance.database.write() as connection:
                current = submissions.locked(connection, submission, None)
                if current.state is state:
                    submissions.change(connection, action, current, None, instance.now_ms())


def tick_all(connection: Connection, instance: Instance) -> None:
    """Have each round looked at in which something is due that no change of state has asked for."""
    now_ms = instance.now_ms()
    states = (State.CHECKED, State.ACCEPTED)
    waiting = select(_submission.c.round).where(_submission.c.state.in_(states)).distinct()
    for row in connection.execute(select(_round).where(_round.c.id.in_(waiting))).all():
        times = (row.closes_ms, row.publish_ms)
        if any(at_ms is not None and at_ms <= now_ms for at_ms in times):
            jobs.add(connection, instance.new_id(), jobs.TICK, row.id, "", now_ms)
