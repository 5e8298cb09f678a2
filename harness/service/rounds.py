"""Rounds: which results belong together, by which rules, and when they are opened, reviewed and published."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import IntegrityError

from harness.errors import UsageError, printable
from harness.service import events, schema, submissions
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
    events.append(connection, now_ms, News("round.added", found, values, None if actor is None else actor.person))
    return found


def advance(instance: Instance, round_id: str) -> None:
    """Do what the clock does in a round: here, publish what is valid where nothing is reviewed."""
    with instance.database.read() as connection:
        row = connection.execute(select(_round).where(_round.c.id == round_id)).one()
        waiting = (
            connection.execute(
                select(_submission.c.id).where(_submission.c.round == round_id, _submission.c.state == State.CHECKED)
            )
            .scalars()
            .all()
        )
    if row.is_reviewed:
        return
    for submission in waiting:
        with instance.database.write() as connection:
            found = submissions.locked(connection, submission, None)
            if found.state is State.CHECKED:
                submissions.change(connection, "publish", found, None, instance.now_ms())
