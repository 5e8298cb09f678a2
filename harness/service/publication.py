"""Which events of the log are opened to whom: those about what they see, and those about no result at all."""

from __future__ import annotations

from sqlalchemy import Connection, String, and_, or_, select

from harness.service import history, review, schema, submissions
from harness.service.history import INTERNAL
from harness.service.people import NOBODY, Actor
from harness.service.submissions import NotThereError
from harness.transparency.event import Opening

_event, _submission = schema.event, schema.submission
OPEN_KINDS = ("round.added",)


def public_openings(connection: Connection, start: int, limit: int) -> list[Opening]:
    """Return the openings of public events from number `start` on, in order.

    Public are rounds, and what was done to published submissions except for the talk of the review.
    """
    is_public = select(_submission.c.id.cast(String(64))).where(submissions.visible_to(NOBODY))
    query = (
        select(_event.c.seq, _event.c.salt, _event.c.document)
        .where(
            _event.c.seq >= start,
            or_(
                _event.c.kind.in_(OPEN_KINDS),
                and_(_event.c.subject.in_(is_public), _event.c.kind.not_in(INTERNAL)),
            ),
        )
        .order_by(_event.c.seq)
        .limit(limit)
    )
    return [Opening(*row) for row in connection.execute(query)]


def is_opened_to(connection: Connection, actor: Actor, kind: str, subject: str) -> bool:
    """Whether somebody sees an event now: in the public log, or in the history of a submission that they see."""
    if kind in OPEN_KINDS:
        return True
    try:
        found = submissions.find(connection, subject, actor)
    except NotThereError:
        return False
    return history.is_shown(kind, sees_review=review.sees_review(connection, actor, found))
