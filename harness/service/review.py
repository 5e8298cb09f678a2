"""Review: objections with rule, file and line, their decisions, acceptance, rejection by two, disputes and their ends.

Nobody decides about their own organisation's result: `harness.service.states` says who may do what.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select, update

from harness.base.ids import new_id
from harness.errors import UsageError, printable
from harness.service import events, schema, submissions
from harness.service.events import News
from harness.service.instance import Instance
from harness.service.people import Actor
from harness.service.states import TRANSITIONS, Role, State
from harness.service.submissions import ConflictError, ForbiddenError, NotThereError, Submission
from harness.service.submitting import files_of

_objection, _proposal, _comment, _round = schema.objection, schema.proposal, schema.comment, schema.round
UPHELD, DISMISSED = "upheld", "dismissed"


@dataclass(frozen=True, slots=True)
class Objection:
    """What somebody objects to. rule: the code of a check, or the name of a rule. path: of a file of the submission.

    line: of that file, from 1.
    """

    rule: str
    text: str
    path: str | None = None
    line: int | None = None


def _reason(instance: Instance, text: str, what: str) -> str:
    """Return a text that must be there."""
    limit = instance.settings.limits.max_text
    if not text.strip():
        raise UsageError(f"{what}: say why, in words")
    if len(text) > limit:
        raise UsageError(f"{what}: {len(text):,} characters; at most {limit:,}")
    return text.strip()


def object_to(instance: Instance, actor: Actor, submission: str, what: Objection) -> str:
    """Object to a submission under review; return the objection's id.

    Raises:
        UsageError: the rule or the reason is missing, or the submission has no such file.
        ForbiddenError: it is their own organisation's, or they do not take part in the round.
        ConflictError: it is not under review, or the time for objections is over.
    """
    text, rule, now_ms = _reason(instance, what.text, "objection"), what.rule.strip(), instance.now_ms()
    if not rule or len(rule) > 100 or not rule.isprintable():
        raise UsageError("objection: name the rule: the code of a check, or a rule's name, in at most 100 characters")
    with instance.database.write() as connection:
        found = submissions.locked(connection, submission, actor)
        submissions.require_allowed(connection, "object", found, actor)
        until_ms = connection.execute(
            select(_round.c.objections_until_ms).where(_round.c.id == found.round)
        ).scalar_one()
        if until_ms is not None and now_ms >= until_ms:
            raise ConflictError("the time for objections is over; after publication, a result can be disputed")
        if what.path is not None and what.path not in {item.path for item in files_of(connection, submission)}:
            raise UsageError(f"objection: the submission has no file {printable(what.path)!r}")
        if what.line is not None and (what.line < 1 or what.path is None):
            raise UsageError("objection: a line is a number from 1, of a file that is named")
        objection = new_id(now_ms)
        connection.execute(
            insert(_objection).values(
                id=objection, submission=submission, person=actor.person, organisation=actor.organisation, rule=rule,
                path=what.path, line=what.line, text=text, state="open", opened_ms=now_ms,
            )
        )  # fmt: skip
        body = {"objection": objection, "rule": rule, "path": what.path, "line": what.line, "reason": text}
        submissions.change(connection, "object", found, actor, now_ms, body)
        return objection


def decide(instance: Instance, actor: Actor, objection: str, decision: str, reason: str) -> None:
    """Decide about an objection; after the last open one, the submission is under review again.

    decision: "upheld" or "dismissed".

    Raises:
        UsageError: it is neither, or has no reason. ForbiddenError: they are no organiser of another organisation than
            the submitter's, or objected themselves. ConflictError: it is decided.
    """
    if decision not in (UPHELD, DISMISSED):
        raise UsageError(f"decision {printable(decision)!r}: it must be {UPHELD} or {DISMISSED}")
    text = _reason(instance, reason, "decision")
    with instance.database.write() as connection:
        row, found = _locked_objection(connection, objection, actor)
        if Role.ORGANISER not in submissions.roles_of(connection, actor, found):
            raise ForbiddenError("decide: only an organiser of another organisation may do this")
        if row.person == actor.person:
            raise ForbiddenError("decide: you may not decide on your own objection")
        _close(connection, instance, found, objection, decision, actor, text)


def withdraw_objection(instance: Instance, actor: Actor, objection: str) -> None:
    """Withdraw an own objection that is open.

    Raises:
        ForbiddenError: it is somebody else's. ConflictError: it is decided.
    """
    with instance.database.write() as connection:
        row, found = _locked_objection(connection, objection, actor)
        if row.organisation != actor.organisation:
            raise ForbiddenError("withdraw: the objection is another organisation's")
        _close(connection, instance, found, objection, "withdrawn", actor, None)


def _locked_objection(connection: Connection, objection: str, actor: Actor):  # type: ignore[no-untyped-def]
    submission = connection.execute(select(_objection.c.submission).where(_objection.c.id == objection)).scalar()
    try:
        found = submissions.locked(connection, submission or "", actor)
    except NotThereError:  # whether there is such an objection to what they do not see is not said
        raise NotThereError(f"there is no objection {printable(objection)}") from None
    row = connection.execute(_objection.select().where(_objection.c.id == objection)).one()
    if row.state != "open":
        raise ConflictError(f"the objection is {row.state}")
    return row, found


def _close(
    connection: Connection,
    instance: Instance,
    found: Submission,
    objection: str,
    state: str,
    actor: Actor,
    reason: str | None,
) -> None:
    now_ms = instance.now_ms()
    connection.execute(
        update(_objection)
        .where(_objection.c.id == objection)
        .values(state=state, decided_by=actor.person, decision=reason, decided_ms=now_ms)
    )
    body = {"objection": objection, "decision": state, "reason": reason}
    news = News("objection.decided" if reason else "objection.withdrawn", found.id, body, actor.person)
    if found.state is State.OBJECTED and num_open(connection, found.id) == 0:
        events.append(connection, now_ms, news)
        submissions.change(connection, "answer_all", found, None, now_ms)
    else:
        events.append(connection, now_ms, news)


def num_open(connection: Connection, submission: str) -> int:
    """Return how many objections to a submission are open."""
    is_open = (_objection.c.submission == submission) & (_objection.c.state == "open")
    return int(connection.execute(select(func.count()).where(is_open)).scalar_one())


def comment(instance: Instance, actor: Actor, submission: str, text: str, objection: str | None = None) -> str:
    """Add a comment, for example a submitter's answer to an objection; return its id. Reviewers and the team see it.

    Raises:
        ForbiddenError: they neither review the submission nor submitted it.
    """
    said, now_ms = _reason(instance, text, "comment"), instance.now_ms()
    with instance.database.write() as connection:
        found = submissions.find(connection, submission, actor)
        if not sees_review(connection, actor, found):
            raise ForbiddenError("comment: only the team, participants in the round and reviewers may do this")
        if objection is not None:
            is_it = (_objection.c.id == objection) & (_objection.c.submission == submission)
            if connection.execute(select(_objection.c.id).where(is_it)).scalar() is None:
                raise NotThereError(f"there is no objection {printable(objection)} to this submission")
        comment_id = new_id(now_ms)
        connection.execute(
            insert(_comment).values(
                id=comment_id, submission=submission, objection=objection, person=actor.person, text=said, at_ms=now_ms
            )
        )
        body = {"comment": comment_id, "objection": objection}
        events.append(connection, now_ms, News("submission.commented", submission, body, actor.person))
        return comment_id


def act(instance: Instance, actor: Actor, submission: str, action: str, reason: str = "") -> State | None:
    """Accept, reject, dispute, settle a dispute, open a review, or have a check made again.

    Return the new state; None where another person must want the same first: what two must want is proposed by one.

    Raises:
        UsageError: no reason where one is needed. ForbiddenError, ConflictError: see `states.refusal`.
    """
    transition = TRANSITIONS[action]
    text = _reason(instance, reason, action.replace("_", " ")) if transition.needs_reason else reason.strip()
    with instance.database.write() as connection:
        found = submissions.locked(connection, submission, actor)
        submissions.require_allowed(connection, action, found, actor)
        if action == "accept" and (count := num_open(connection, submission)):
            raise ConflictError(f"accept: there are open objections ({count:,})")
        now_ms = instance.now_ms()
        body: dict[str, object] = {"reason": text} if text else {}
        if transition.num_people > 1:
            first = _first(connection, found, action, actor, text, now_ms)
            if first is None:
                return None
            body["seconds"] = first
        values = {"division": "open"} if action == "move_to_open" else {}
        changed = submissions.change(connection, action, found, actor, now_ms, body, **values)
        return changed.state


def _first(
    connection: Connection, found: Submission, action: str, actor: Actor, reason: str, now_ms: int
) -> str | None:
    """Return who proposed this before, and close the proposal; None if nobody else did, and it is proposed now.

    What somebody proposed who could not do so any more does not count.
    """
    person = schema.person
    may_decide = person.c.is_organiser & person.c.disabled_ms.is_(None) & (person.c.organisation != found.organisation)
    is_open = (_proposal.c.submission == found.id) & (_proposal.c.action == action) & (_proposal.c.state == "open")
    query = select(_proposal.c.id, _proposal.c.person).join(person, person.c.id == _proposal.c.person)
    others = connection.execute(query.where(is_open, may_decide)).all()
    by_another = next((row for row in others if row.person != actor.person), None)
    if by_another is None:
        if others:
            raise ConflictError(f"{action.replace('_', ' ')}: you proposed it; a second organiser must agree")
        connection.execute(
            insert(_proposal).values(
                id=new_id(now_ms), submission=found.id, action=action, person=actor.person, reason=reason, at_ms=now_ms,
                state="open",
            )
        )  # fmt: skip
        body = {"action": action, "reason": reason}
        events.append(connection, now_ms, News("submission.proposed", found.id, body, actor.person))
        return None
    all_open = (_proposal.c.submission == found.id) & (_proposal.c.state == "open")
    connection.execute(update(_proposal).where(all_open, _proposal.c.id != by_another.id).values(state="withdrawn"))
    connection.execute(update(_proposal).where(_proposal.c.id == by_another.id).values(state="carried"))
    return str(by_another.person)


def sees_review(connection: Connection, actor: Actor, submission: Submission) -> bool:
    """Whether somebody sees what reviewers and the team say to each other."""
    roles = submissions.roles_of(connection, actor, submission)
    return bool(roles & {Role.OWNER, Role.AUDITOR, Role.ORGANISER}) or (
        Role.ENTRANT in roles and not submission.is_public
    )
