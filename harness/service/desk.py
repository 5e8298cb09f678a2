"""What waits for somebody: of the submissions that they see, those with which they have something to do, and what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from harness.service import schema, submissions
from harness.service.people import Actor
from harness.service.states import TRANSITIONS, State
from harness.service.submissions import Submission

MAX_WAITING = 100
_objection, _proposal, _round, _submission = schema.objection, schema.proposal, schema.round, schema.submission
_OF_ITS_TEAM: Mapping[State, str] = {
    State.DRAFT: "Files are missing: send them, or withdraw it.",
    State.CHECK_FAILED: "The check itself failed: have it made again.",
    State.INVALID: "Not valid: read the findings, then send a better one or withdraw it.",
    State.OBJECTED: "Answer the objection.",
}
_REVIEWED = (State.UNDER_REVIEW, State.OBJECTED)
_STATES = (*_OF_ITS_TEAM, State.UNDER_REVIEW, State.DISPUTED)
_LOOK, _DECIDE = "Look it over: you may object.", "Accept or reject it."
_PROPOSED = {
    "reject": "reject it", "uphold": "uphold it", "retract": "retract it",
    "move_to_open": "move it to the open division",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Waiting:
    """A submission that waits for somebody, and what they may do, in a sentence.

    until_ms: how long objections are taken, where that matters; None: as long as it is under review.
    """

    submission: Submission
    task: str
    until_ms: int | None = None


def waiting(connection: Connection, actor: Actor, now_ms: int) -> list[Waiting]:
    """Return what waits for somebody, what changed last first; nothing for somebody who is not signed in."""
    if not actor.is_known:
        return []
    found = submissions.page(connection, actor, MAX_WAITING, None, _submission.c.state.in_(_STATES))
    ids = [item.id for item in found]
    rounds = {
        row.id: row for row in connection.execute(select(_round).where(_round.c.id.in_({i.round for i in found})))
    }
    is_open = _objection.c.submission.in_(ids) & (_objection.c.state == "open")
    objections = connection.execute(select(_objection).where(is_open)).all()
    is_open = _proposal.c.submission.in_(ids) & (_proposal.c.state == "open")
    proposals = connection.execute(select(_proposal).where(is_open)).all()
    shown = []
    for item in found:
        task = _task(
            item,
            actor,
            [row for row in objections if row.submission == item.id],
            # One to reject stays open when it was accepted all the same: nobody is asked about it any more.
            [row for row in proposals if row.submission == item.id and item.state in TRANSITIONS[row.action].sources],
        )
        until_ms = rounds[item.round].objections_until_ms if task in (_LOOK, _DECIDE) else None
        is_over = until_ms is not None and until_ms <= now_ms
        if task is not None and not (task == _LOOK and is_over):
            shown.append(Waiting(item, task, None if is_over else until_ms))
    return shown


def _task(item: Submission, actor: Actor, objections: list[Row[Any]], proposals: list[Row[Any]]) -> str | None:
    if item.organisation == actor.organisation:
        return _OF_ITS_TEAM.get(item.state)
    if not actor.is_organiser:
        has_said = any(row.organisation == actor.organisation for row in objections)
        return _LOOK if item.state in _REVIEWED and not has_said else None
    if item.state is State.OBJECTED:
        return "Decide about the objection." if any(row.person != actor.person for row in objections) else None
    if item.state is State.CHECK_FAILED:
        return _OF_ITS_TEAM[State.CHECK_FAILED]
    if item.state is State.INVALID:
        return None
    others = [row for row in proposals if row.person != actor.person]
    if others:
        return f"Another organiser wants to {_PROPOSED[others[-1].action]}: say whether you do, too."
    if proposals:
        return None  # another has to want it, too
    return "Settle the dispute." if item.state is State.DISPUTED else _DECIDE
