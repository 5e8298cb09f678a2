"""What is shown of a submission's history, to whom: one rule for the interface, the pages and the export.

Everybody who sees a submission sees its changes of state with their reasons, its verdicts, and after publication the
objections that were decided, with rule, place, decision and the organisations. The team and the reviewers also see open
objections, proposals and comments. Nobody sees a person's e-mail or the names of others' people.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, select

from harness.service import events, review, schema
from harness.service.people import Actor
from harness.service.submissions import Submission

# Of an objection that was not decided, others than the review do not learn whose it was.
_UNNAMED = ("submission.object", "objection.withdrawn")
INTERNAL = ("submission.proposed", "submission.commented")  # kinds of events that only the review sees
_objection, _comment, _verdict, _proposal = schema.objection, schema.comment, schema.verdict, schema.proposal


def is_shown(kind: str, *, sees_review: bool) -> bool:
    """Whether an event about a submission is shown to somebody who sees the submission."""
    return sees_review or kind not in INTERNAL


def of(connection: Connection, actor: Actor, submission: Submission) -> dict[str, Any]:
    """Return verdict, findings, history, objections and comments, as far as `actor` sees them."""
    sees_review = review.sees_review(connection, actor, submission)
    verdict = connection.execute(_verdict.select().where(_verdict.c.id == submission.verdict)).one_or_none()
    happened = [
        event
        for event in (item.event for item in events.of_subject(connection, submission.id))
        if is_shown(event["kind"], sees_review=sees_review)
    ]
    teams = _teams(connection, {event["actor"] for event in happened})
    found: dict[str, Any] = {
        "is_valid": None if verdict is None else verdict.is_valid,
        "ruleset": None if verdict is None else verdict.ruleset,
        "ruleset_digest": None if verdict is None else verdict.ruleset_digest,
        "checker": None if verdict is None else verdict.checker,
        "findings": None if verdict is None else json.loads(verdict.document),
        "history": [
            {
                **{name: event[name] for name in ("seq", "at_ms", "kind", "body")},
                "organisation": teams.get(event["actor"]) if sees_review or event["kind"] not in _UNNAMED else None,
            }
            for event in happened
        ],
        "objections": _objections(connection, submission, sees_review=sees_review),
    }
    if sees_review:
        found["comments"] = _comments(connection, submission)
        found["proposals"] = _proposals(connection, submission)
    return found


def _teams(connection: Connection, people: Collection[str | None]) -> dict[str | None, str]:
    """Return the names of people's organisations, by the people's ids. The service itself has none."""
    person, organisation = schema.person, schema.organisation
    query = select(person.c.id, organisation.c.name).join(organisation, organisation.c.id == person.c.organisation)
    rows = connection.execute(query.where(person.c.id.in_([item for item in people if item is not None])))
    return {row.id: row.name for row in rows}


def _objections(connection: Connection, submission: Submission, *, sees_review: bool) -> list[dict[str, Any]]:
    organisation = schema.organisation
    query = (
        select(_objection, organisation.c.name.label("organisation_name"))
        .join(organisation, organisation.c.id == _objection.c.organisation)
        .where(_objection.c.submission == submission.id)
        .order_by(_objection.c.opened_ms, _objection.c.id)
    )
    rows = [row for row in connection.execute(query) if sees_review or row.state in (review.UPHELD, review.DISMISSED)]
    deciders = _teams(connection, {row.decided_by for row in rows})
    return [
        {
            "id": row.id,
            "organisation": row.organisation_name,
            "rule": row.rule,
            "path": row.path,
            "line": row.line,
            "text": row.text,
            "state": row.state,
            "decision": row.decision,
            "decided_by": deciders.get(row.decided_by),
            "opened_ms": row.opened_ms,
            "decided_ms": row.decided_ms,
        }
        for row in rows
    ]


def _comments(connection: Connection, submission: Submission) -> list[dict[str, Any]]:
    person, organisation = schema.person, schema.organisation
    query = (
        select(_comment.c.id, _comment.c.objection, _comment.c.text, _comment.c.at_ms, organisation.c.name)
        .join(person, person.c.id == _comment.c.person)
        .join(organisation, organisation.c.id == person.c.organisation)
        .where(_comment.c.submission == submission.id)
        .order_by(_comment.c.at_ms, _comment.c.id)
    )
    return [
        {"id": row.id, "objection": row.objection, "organisation": row.name, "text": row.text, "at_ms": row.at_ms}
        for row in connection.execute(query)
    ]


def _proposals(connection: Connection, submission: Submission) -> list[dict[str, Any]]:
    query = _proposal.select().where(_proposal.c.submission == submission.id).order_by(_proposal.c.at_ms)
    rows = connection.execute(query).all()
    teams = _teams(connection, {row.person for row in rows})
    return [
        {
            "action": row.action, "reason": row.reason, "state": row.state, "organisation": teams[row.person],
            "at_ms": row.at_ms,
        }
        for row in rows
    ]  # fmt: skip
