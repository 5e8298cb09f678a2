"""Submissions as they are now: who sees which, what a person is to one, and how their state changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, exists, or_, select, true, update

from harness.base.ids import new_id
from harness.errors import TtaError
from harness.service import editions, events, jobs, schema
from harness.service.events import Appended, News
from harness.service.people import Actor
from harness.service.states import IN_REVIEW, PUBLIC, TAKES_PART, TRANSITIONS, Role, State, refusal

_submission, _organisation, _round = schema.submission, schema.organisation, schema.round


class NotThereError(TtaError):
    """There is no such thing, or not for whoever asks: the two are not told apart."""


class ConflictError(TtaError):
    """It cannot be done to this thing as it is now."""


class ForbiddenError(TtaError):
    """It is not for whoever asks, who may see the thing."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A row, as far as decisions need it."""

    id: str
    round: str
    organisation: str
    organisation_name: str
    person: str
    benchmark: str
    division: str
    category: str
    system: str
    accelerator: str
    manifest_sha256: str
    num_files: int
    num_bytes: int
    state: State
    seq: int
    supersedes: str | None
    superseded_by: str | None
    verdict: str | None
    created_ms: int
    received_ms: int | None
    published_ms: int | None
    changed_ms: int

    @property
    def is_public(self) -> bool:
        return self.state in PUBLIC


_COLUMNS = tuple(
    _organisation.c.name if name == "organisation_name" else _submission.c[name]
    for name in Submission.__dataclass_fields__
)


def _of_row(row: Row[Any]) -> Submission:
    values: dict[str, Any] = dict(zip(Submission.__dataclass_fields__, row, strict=True))
    return Submission(**{**values, "state": State(values["state"])})


_SOURCE = _submission.join(_organisation, _submission.c.organisation == _organisation.c.id)


def visible_to(actor: Actor) -> ColumnElement[bool]:
    """Return the condition on `submission` under which somebody sees one. Every query of submissions has it.

    Everybody: what was published. A team: its own. Who takes part in a round: what is under review there. Auditors and
    organisers: all but drafts. What was withdrawn is seen by its team, auditors and organisers.
    """
    is_public = _submission.c.state.in_(PUBLIC)
    if not actor.is_known or "read" not in actor.scopes:
        return is_public
    is_own = _submission.c.organisation == actor.organisation
    if actor.sees_all:
        return or_(is_own, _submission.c.state != State.DRAFT)
    other = _submission.alias()
    takes_part = exists().where(
        other.c.round == _submission.c.round,
        other.c.organisation == actor.organisation,
        other.c.state.in_(TAKES_PART),
    )
    return or_(is_public, is_own, and_(_submission.c.state.in_(IN_REVIEW), takes_part))


def find(connection: Connection, submission: str, actor: Actor | None) -> Submission:
    """Return a submission that `actor` sees; None: the service, which sees all.

    Raises:
        NotThereError: there is none that they see.
    """
    condition = true() if actor is None else visible_to(actor)
    query = select(*_COLUMNS).select_from(_SOURCE).where(_submission.c.id == submission, condition)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NotThereError(f"there is no submission {submission}")
    return _of_row(row)


def page(
    connection: Connection,
    actor: Actor,
    limit: int,
    before: tuple[int, str] | None = None,
    where: ColumnElement[bool] | None = None,
) -> list[Submission]:
    """Return the submissions that `actor` sees, what changed last first. before: time and id of the last one seen."""
    key = (_submission.c.changed_ms, _submission.c.id)
    query = select(*_COLUMNS).select_from(_SOURCE).where(visible_to(actor), true() if where is None else where)
    if before is not None:
        at_ms, last = before
        query = query.where(or_(key[0] < at_ms, and_(key[0] == at_ms, key[1] < last)))
    rows = connection.execute(query.order_by(key[0].desc(), key[1].desc()).limit(limit))
    return [_of_row(row) for row in rows]


def roles_of(connection: Connection, actor: Actor, submission: Submission) -> frozenset[Role]:
    """Return what somebody is to a submission. Nobody is auditor or organiser of their own organisation's."""
    if not actor.is_known:
        return frozenset()
    if actor.organisation == submission.organisation:
        return frozenset({Role.OWNER})
    roles = {Role.SIGNED_IN}
    roles |= {Role.AUDITOR} if actor.is_auditor else set()
    roles |= {Role.ORGANISER} if actor.is_organiser else set()
    takes_part = select(_submission.c.id).where(
        _submission.c.round == submission.round,
        _submission.c.organisation == actor.organisation,
        _submission.c.state.in_(TAKES_PART),
    )
    if connection.execute(takes_part.limit(1)).scalar() is not None:
        roles.add(Role.ENTRANT)
    return frozenset(roles)


@dataclass(frozen=True, slots=True)
class Changed:
    """A change of state, and where it is in the log."""

    submission: Submission
    state: State
    appended: Appended


def locked(connection: Connection, submission: str, actor: Actor | None) -> Submission:
    """Return a submission as it is, and keep everybody else from changing it until the transaction ends.

    Raises:
        NotThereError: there is none that `actor` sees.
    """
    connection.execute(select(_submission.c.id).where(_submission.c.id == submission).with_for_update())
    return find(connection, submission, actor)


def require_allowed(connection: Connection, action: str, submission: Submission, actor: Actor | None) -> None:
    """Raises:
    ForbiddenError: it is not for `actor` (None: the service). ConflictError: not in the submission's state.
    """
    roles = frozenset({Role.SERVICE}) if actor is None else roles_of(connection, actor, submission)
    why = refusal(action, submission.state, roles)
    if why is None:
        return
    if roles.isdisjoint(TRANSITIONS[action].roles):
        raise ForbiddenError(why)
    raise ConflictError(why)


def change(
    connection: Connection,
    action: str,
    submission: Submission,
    actor: Actor | None,
    now_ms: int,
    body: Mapping[str, Any] | None = None,
    **values: Any,
) -> Changed:
    """Change the state of a submission that is `locked`, with its event, and add the jobs that follow from it.

    actor: None of the service. body: more for the event. values: more columns to change.

    Raises:
        ForbiddenError, ConflictError: see `require_allowed`.
    """
    require_allowed(connection, action, submission, actor)
    target = TRANSITIONS[action].target
    if target is State.PUBLISHED and submission.published_ms is None:
        values["published_ms"] = now_ms
    connection.execute(
        update(_submission)
        .where(_submission.c.id == submission.id)
        .values(state=target, seq=submission.seq + 1, changed_ms=now_ms, **values)
    )
    _follow(connection, submission, target, now_ms)
    if target in PUBLIC or submission.is_public:
        editions.begin(connection)
    news = [
        News(
            f"submission.{action}",
            submission.id,
            {"from": submission.state, "to": target, "round": submission.round, **(body or {})},
            None if actor is None else actor.person,
        )
    ]
    if target is State.PUBLISHED and submission.supersedes is not None and _supersede(connection, submission, now_ms):
        news.append(News("submission.superseded", submission.supersedes, {"by": submission.id}))
    return Changed(submission, target, events.append_all(connection, now_ms, news)[0])


def _supersede(connection: Connection, submission: Submission, now_ms: int) -> bool:
    """Note at an earlier result of the same kind that this one has taken its place; it keeps its page."""
    is_it = and_(
        _submission.c.id == submission.supersedes,
        _submission.c.organisation == submission.organisation,
        _submission.c.benchmark == submission.benchmark,
        _submission.c.division == submission.division,
        _submission.c.superseded_by.is_(None),
    )
    values = {"superseded_by": submission.id, "changed_ms": now_ms}
    return connection.execute(update(_submission).where(is_it).values(**values)).rowcount == 1


def _follow(connection: Connection, submission: Submission, target: State, now_ms: int) -> None:
    """Add the jobs that a new state makes necessary."""

    def add(kind: str, subject: str, owner: str = "") -> None:
        jobs.add(connection, new_id(now_ms), kind, subject, owner, now_ms)

    if target in (State.RECEIVED, State.MOVED_TO_OPEN):  # in the open division it is scored in another way
        add(jobs.CHECK, submission.id, submission.organisation)
    if target in PUBLIC or submission.state in PUBLIC:
        add(jobs.RANK, submission.id)
    if target in (State.CHECKED, State.ACCEPTED):
        add(jobs.TICK, submission.round)
