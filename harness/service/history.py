"""What is shown of a submission's history, to whom: one rule for the interface, the pages and the export.

Everybody who sees a submission sees its changes of state with their reasons, its verdicts, and after publication the
objections that were decided, with rule, place, decision and the organisations. The team and the reviewers also see open
objections, proposals and comments. Nobody sees a person's e-mail or the names of others' people.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, select

from harness.service import events, review, schema
from harness.service.people import Actor
from harness.service.submissions import Submission

INTERNAL = ("submission.proposed", "submission.commented")  # kinds of events that only the review sees
_objection, _comment, _verdict, _proposal = schema.objection, schema.comment, schema.verdict, schema.proposal


def is_shown(kind: str, *, sees_review: bool) -> bool:
    """Whether an event about a submission is shown to somebody who sees the submission."""
    return sees_review or kind not in INTERNAL


def of(connection: Connection, actor: Actor, submission: Submission) -> dict[str, Any]:
    """Return verdict, findings, history, objections and comments, as far as `actor` sees them."""
    sees_review = review.sees_review(connection, actor, submission)
    verdict = connection.execute(_verdict.select().where(_verdict.c.id == submission.verdict)).one_or_none()
    openings = events.of_subject(connection, submission.id)
    found: dict[str, Any] = {
        "is_valid": None if verdict is None else verdict.is_valid,
        "ruleset": None if verdict is None else verdict.ruleset,
        "ruleset_digest": None if verdict is None else verdict.ruleset_digest,
        "checker": None if verdict is None else verdict.checker,
        "findings": None if verdict is None else json.loads(verdict.document),
        "history": [
            {name: event[name] for name in ("seq", "at_ms", "kind", "body")}
            for event in (item.event for item in openings)
            if is_shown(event["kind"], sees_review=sees_review)
        ],
        "objections": _objections(connection, submission, sees_review=sees_review),
    }
    if sees_review:
        found["comments"] = _comments(connection, submission)
        found["proposals"] = _proposals(connection, submission)
    return found


def _objections(connection: Connection, submission: Submission, *, sees_review: bool) -> list[dict[str, Any]]:
    organisation = schema.organisation
    query = (
        select(_objection, organisation.c.name.label("organisation_name"))
        .join(organisation, organisation.c.id == _objection.c.organisation)
        .where(_objection.c.submission == submission.id)
        .order_by(_objection.c.opened_ms, _objection.c.id)
    )
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
            "opened_ms": row.opened_ms,
            "decided_ms": row.decided_ms,
        }
        for row in connection.execute(query)
        if sees_review or row.state in (review.UPHELD, review.DISMISSED)
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
    return [
        {"action": row.action, "reason": row.reason, "state": row.state, "at_ms": row.at_ms}
        for row in connection.execute(query)
    ]
