"""What routes ask for: the service, and who makes the request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Header, HTTPException, Request

from harness.service import people
from harness.service.instance import Instance
from harness.service.people import NOBODY, Actor

_BEARER = "bearer "


def instance_of(request: Request) -> Instance:
    """Return the service."""
    found: Instance = request.app.state.instance
    return found


TheInstance = Annotated[Instance, Depends(instance_of)]


def actor_of(instance: TheInstance, authorization: Annotated[str | None, Header()] = None) -> Actor:
    """Return who makes a request: whose token it has. Without one, nobody; with a wrong one, it is refused."""
    if authorization is None:
        return NOBODY
    if not authorization.lower().startswith(_BEARER):
        raise HTTPException(401, "write `Authorization: Bearer TOKEN`", {"www-authenticate": "Bearer"})
    secret = authorization[len(_BEARER) :].strip()
    with instance.database.read() as connection:
        found = people.by_token(connection, secret, instance.now_ms())
    if found is None:
        raise HTTPException(
            401,
            "the token is unknown, revoked or expired; `tta login` keeps a new one",
            {"www-authenticate": "Bearer"},
        )
    return found


AnyActor = Annotated[Actor, Depends(actor_of)]


def with_scope(scope: str) -> Callable[[Actor], Actor]:
    """Return a dependency: somebody who is signed in, with a token for `scope`."""

    def checked(actor: AnyActor) -> Actor:
        if not actor.is_known:
            raise HTTPException(401, "sign in: this needs a token", {"www-authenticate": "Bearer"})
        if scope not in actor.scopes:
            raise HTTPException(403, f"this token is not for {scope!r}; it is for: {', '.join(sorted(actor.scopes))}")
        return actor

    return checked


Submitter = Annotated[Actor, Depends(with_scope("submit"))]
Reviewer = Annotated[Actor, Depends(with_scope("review"))]
Organiser = Annotated[Actor, Depends(with_scope("admin"))]
