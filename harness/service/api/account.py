"""Whoever makes the request: who that is, their tokens; and the service's own key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select

from harness import __version__
from harness.errors import printable
from harness.service import people, schema
from harness.service.api.dependencies import TheInstance, with_scope
from harness.service.instance import Instance
from harness.service.people import Actor
from harness.service.submissions import ForbiddenError, NotThereError

router = APIRouter(tags=["account"])
Reader = Annotated[Actor, Depends(with_scope("read"))]


class TokenModel(BaseModel):
    """A token to make. days: after which it expires."""

    model_config = ConfigDict(extra="forbid", strict=True)
    label: str = Field(min_length=1, max_length=200)
    scopes: list[str] = Field(min_length=1, max_length=10)
    days: int | None = Field(None, ge=1, le=3650)


@router.get("/me")
def me(actor: Reader) -> dict[str, Any]:
    """Return who you are, and what your token is for."""
    roles = [role for role, has in (("auditor", actor.is_auditor), ("organiser", actor.is_organiser)) if has]
    return {
        "name": actor.name,
        "organisation": actor.organisation_name,
        "roles": ["submitter", *roles],
        "scopes": sorted(actor.scopes),
    }


@router.get("/key")
def key(instance: TheInstance) -> dict[str, Any]:
    """Return the key that signs receipts and checkpoints, and the name of the log."""
    return {
        "origin": instance.settings.origin,
        "public_key": instance.key.public,
        "fingerprint": instance.key.fingerprint,
        "harness": __version__,
    }


@router.get("/tokens")
def tokens(instance: TheInstance, actor: Reader) -> dict[str, Any]:
    """Return your tokens, without their secrets."""
    table = schema.token
    names = ("id", "label", "scopes", "created_ms", "expires_ms", "revoked_ms")
    query = select(*(table.c[name] for name in names)).where(table.c.person == actor.person)
    with instance.database.read() as connection:
        rows = connection.execute(query.order_by(table.c.created_ms.desc()).limit(200)).mappings().all()
    return {"tokens": [{**row, "scopes": row["scopes"].split(" ")} for row in rows]}


@router.post("/tokens", status_code=201)
def make_token(instance: TheInstance, actor: Reader, body: TokenModel) -> dict[str, Any]:
    """Make a token, for no more and no longer than your own is for. It is shown this once."""
    found, secret = new_token(instance, actor, body.label, body.scopes, body.days)
    return {"id": found, "token": secret}


def new_token(
    instance: Instance, actor: Actor, label: str, scopes: Iterable[str], days: float | None = None
) -> tuple[str, str]:
    """Make a token for whoever asks; return its id and the token.

    Raises:
        ForbiddenError: their own token, or session, is not for one of the scopes. UsageError: see `people.add_token`.
    """
    assert actor.person is not None
    wanted, now_ms = set(scopes), instance.now_ms()
    if beyond := sorted(wanted - actor.scopes):
        known = ", ".join(sorted(actor.scopes))
        raise ForbiddenError(f"your own token is not for {printable(beyond[0], 40)!r}; it is for: {known}")
    if actor.until_ms is not None:
        left = (actor.until_ms - now_ms) / (24 * people.HOUR_MS)
        days = left if days is None else min(days, left)
    with instance.database.write() as connection:
        return people.add_token(connection, actor.person, label, wanted, now_ms, days)


@router.delete("/tokens/{token}", status_code=204)
def revoke_token(instance: TheInstance, actor: Reader, token: str) -> None:
    """Make one of your tokens worthless."""
    assert actor.person is not None
    with instance.database.write() as connection:
        if not people.revoke_token(connection, token, actor.person, instance.now_ms()):
            raise NotThereError("you have no such token that still counts")
