"""Who is there: organisations, people, and the tokens and sessions by which they are known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from harness.base.ids import new_id, new_secret, secret_digest
from harness.errors import UsageError, printable, unknown_name
from harness.service import schema
from harness.service.events import News, append
from harness.submission.layout import NAME_PATTERN

SCOPES = ("read", "submit", "review", "admin")
HOUR_MS = 3_600_000
_person, _organisation, _token, _session = schema.person, schema.organisation, schema.token, schema.session


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a request. person: an id; None of somebody who is not signed in.

    scopes: what the token, or the session, may be used for. token: its id, and when it expires; None: never, or there
    is none.
    """

    person: str | None = None
    name: str = ""
    organisation: str = ""
    organisation_name: str = ""
    is_auditor: bool = False
    is_organiser: bool = False
    scopes: frozenset[str] = frozenset()
    token: str | None = None
    until_ms: int | None = None

    @property
    def is_known(self) -> bool:
        return self.person is not None

    @property
    def sees_all(self) -> bool:
        return self.is_auditor or self.is_organiser


NOBODY = Actor()


def add_organisation(connection: Connection, name: str, now_ms: int) -> str:
    """Add an organisation and return its id.

    Raises:
        UsageError: there is one of that name, also in other letters of the alphabet's two cases; or it cannot be a
            folder's name.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise UsageError(
            f"organisation {printable(name)!r}: at most 100 letters, digits and . _ + -, the first a letter or digit"
        )
    found = new_id(now_ms)
    values = {"id": found, "name": name, "name_key": name.casefold(), "created_ms": now_ms}
    try:
        connection.execute(insert(_organisation).values(**values))
    except IntegrityError:
        raise UsageError(
            f"organisation {name!r}: this name, or one that differs from it only in case, is taken"
        ) from None
    return found


def organisation_named(connection: Connection, name: str) -> str | None:
    """Return the id of an organisation; None if there is none of this name."""
    return connection.execute(select(_organisation.c.id).where(_organisation.c.name == name)).scalar()


def add_person(
    connection: Connection,
    name: str,
    organisation: str,
    now_ms: int,
    *,
    email: str | None = None,
    subject: str | None = None,
    is_auditor: bool = False,
    is_organiser: bool = False,
) -> str:
    """Add a person to an organisation, by its id, with an event; return the person's id.

    Raises:
        UsageError: there is one of that name or subject, or the name has no letter.
    """
    if not name.strip() or len(name) > 100 or not name.isprintable():
        raise UsageError(f"person {printable(name)!r}: the name must have 1 to 100 printable characters")
    found = new_id(now_ms)
    values = {
        "id": found, "organisation": organisation, "name": name, "email": email, "subject": subject,
        "is_auditor": is_auditor, "is_organiser": is_organiser, "created_ms": now_ms,
    }  # fmt: skip
    try:
        connection.execute(insert(_person).values(**values))
    except IntegrityError:
        raise UsageError(f"person {printable(name)!r}: the name or the subject is taken") from None
    roles = [role for role, has in (("auditor", is_auditor), ("organiser", is_organiser)) if has]
    append(connection, now_ms, News("person.added", found, {"organisation": organisation, "roles": roles}))
    return found


def change_roles(
    connection: Connection, person: str, actor: str | None, now_ms: int, *, is_auditor: bool, is_organiser: bool
) -> None:
    """Change what a person may do, with an event."""
    values = {"is_auditor": is_auditor, "is_organiser": is_organiser}
    connection.execute(update(_person).where(_person.c.id == person).values(**values))
    roles = [role for role, has in (("auditor", is_auditor), ("organiser", is_organiser)) if has]
    append(connection, now_ms, News("person.roles_changed", person, {"roles": roles}, actor))


def change_subject(connection: Connection, person: str, subject: str, actor: str | None, now_ms: int) -> None:
    """Change how the proxy or the identity provider names a person, with an event that does not say it.

    Raises:
        UsageError: another person signs in so.
    """
    try:
        connection.execute(update(_person).where(_person.c.id == person).values(subject=subject))
    except IntegrityError:
        raise UsageError(f"subject {printable(subject)!r}: another person signs in so") from None
    append(connection, now_ms, News("person.subject_changed", person, {}, actor))


def disable(connection: Connection, person: str, actor: str | None, now_ms: int) -> None:
    """Keep a person out from now on, with an event: no token and no session of theirs counts."""
    connection.execute(update(_person).where(_person.c.id == person).values(disabled_ms=now_ms))
    append(connection, now_ms, News("person.disabled", person, {}, actor))


def organisations(connection: Connection) -> list[str]:
    """Return the names of the organisations, sorted."""
    return list(connection.execute(select(_organisation.c.name).order_by(_organisation.c.name)).scalars())


def everybody(connection: Connection) -> list[tuple[str, str, bool, bool, int | None]]:
    """Return name, organisation, whether auditor, whether organiser, and when disabled, of each person, by name."""
    columns = (
        _person.c.name, _organisation.c.name, _person.c.is_auditor, _person.c.is_organiser, _person.c.disabled_ms,
    )  # fmt: skip
    query = select(*columns).join(_organisation, _organisation.c.id == _person.c.organisation)
    return [
        (name, team, is_auditor, is_organiser, disabled_ms)
        for name, team, is_auditor, is_organiser, disabled_ms in connection.execute(query.order_by(_person.c.name))
    ]


def person_named(connection: Connection, name: str) -> str | None:
    """Return the id of a person; None if there is none of this name."""
    return connection.execute(select(_person.c.id).where(_person.c.name == name)).scalar()


def add_token(
    connection: Connection, person: str, label: str, scopes: Iterable[str], now_ms: int, days: float | None = None
) -> tuple[str, str]:
    """Make a token; return its id and the token, which is kept nowhere.

    days: after which it expires; None: never.

    Raises:
        UsageError: a scope is unknown, or there is none.
    """
    wanted = sorted(set(scopes))
    for scope in wanted:
        if scope not in SCOPES:
            raise UsageError(unknown_name("scope", scope, SCOPES))
    if not wanted:
        raise UsageError(f"a token needs a scope; there are: {', '.join(SCOPES)}")
    secret, found = new_secret(), new_id(now_ms)
    connection.execute(
        insert(_token).values(
            id=found,
            person=person,
            sha256=secret_digest(secret),
            label=printable(label, 200),
            scopes=" ".join(wanted),
            created_ms=now_ms,
            expires_ms=None if days is None else now_ms + int(days * 24 * HOUR_MS),
        )
    )
    return found, secret


def revoke_token(connection: Connection, token: str, person: str, now_ms: int) -> bool:
    """Make a person's token worthless; False if they have none with this id that still counts."""
    mine = (_token.c.id == token) & (_token.c.person == person) & _token.c.revoked_ms.is_(None)
    return connection.execute(update(_token).where(mine).values(revoked_ms=now_ms)).rowcount == 1


def by_token(connection: Connection, secret: str, now_ms: int) -> Actor | None:
    """Return whom a token is of; None if it is unknown, revoked or expired, or its person is disabled."""
    return _of_token(connection, _token.c.sha256 == secret_digest(secret), now_ms)


def add_session(connection: Connection, token: str, now_ms: int, hours: float) -> str:
    """Begin a session in a browser with a token, by its id; return its secret, which is kept nowhere."""
    secret = new_secret()
    expires_ms = now_ms + int(hours * HOUR_MS)
    connection.execute(
        insert(_session).values(sha256=secret_digest(secret), token=token, created_ms=now_ms, expires_ms=expires_ms)
    )
    return secret


def end_session(connection: Connection, secret: str) -> None:
    """End a session, if it is one."""
    connection.execute(delete(_session).where(_session.c.sha256 == secret_digest(secret)))


def end_expired(connection: Connection, now_ms: int) -> None:
    """Forget the sessions that are over."""
    connection.execute(delete(_session).where(_session.c.expires_ms <= now_ms))


def by_session(connection: Connection, secret: str, now_ms: int) -> Actor | None:
    """Return whose session it is; None if it is unknown or over, or its token no longer counts."""
    is_it = (_session.c.sha256 == secret_digest(secret)) & (_session.c.expires_ms > now_ms)
    return _of_token(connection, _token.c.id == select(_session.c.token).where(is_it).scalar_subquery(), now_ms)


def _of_token(connection: Connection, is_it: ColumnElement[bool], now_ms: int) -> Actor | None:
    counts = _token.c.revoked_ms.is_(None) & or_(_token.c.expires_ms.is_(None), _token.c.expires_ms > now_ms)
    query = select(*_ACTOR, _token.c.scopes, _token.c.id, _token.c.expires_ms)
    query = query.select_from(_SOURCE.join(_token, _token.c.person == _person.c.id))
    row = connection.execute(query.where(is_it, counts, _person.c.disabled_ms.is_(None))).one_or_none()
    return None if row is None else Actor(*row[:6], frozenset(row.scopes.split(" ")), *row[7:])


def by_subject(connection: Connection, subject: str) -> Actor | None:
    """Return whom a proxy or an identity provider calls so; None if nobody, or a disabled person."""
    is_it = (_person.c.subject == subject) & _person.c.disabled_ms.is_(None)
    row = connection.execute(select(*_ACTOR).select_from(_SOURCE).where(is_it)).one_or_none()
    return None if row is None else Actor(*row, frozenset(SCOPES))


_SOURCE = _person.join(_organisation, _person.c.organisation == _organisation.c.id)
_ACTOR = (
    _person.c.id, _person.c.name, _organisation.c.id, _organisation.c.name.label("organisation_name"),
    _person.c.is_auditor, _person.c.is_organiser,
)  # fmt: skip
