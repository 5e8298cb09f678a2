"""Hooks: what an organisation is sent when something happens that it sees."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from harness.service import hooks
from harness.service.api.dependencies import Submitter, TheInstance
from harness.service.instance import Instance
from harness.service.people import Actor
from harness.service.submissions import ForbiddenError

router = APIRouter(tags=["hooks"])
SHOWN = 100


class HookModel(BaseModel):
    """A hook to make. of: "public" sends what everybody sees, and is for organisers."""

    model_config = ConfigDict(extra="forbid", strict=True)
    url: str = Field(min_length=1, max_length=hooks.MAX_URL)
    of: Literal["organisation", "public"] = "organisation"


@router.get("/hooks")
def listed(instance: TheInstance, actor: Submitter) -> dict[str, Any]:
    """Return the hooks of your organisation; to organisers, also those for what is public."""
    with instance.database.read() as connection:
        return {"hooks": hooks.of_actor(connection, actor)}


@router.post("/hooks", status_code=201)
def make(instance: TheInstance, actor: Submitter, body: HookModel) -> dict[str, Any]:
    """Make a hook; return its id and the secret that signs what it is sent, which is shown this once."""
    hook, secret = made(instance, actor, body.url, is_public=body.of == "public")
    return {"id": hook, "secret": secret}


def made(instance: Instance, actor: Actor, url: str, *, is_public: bool) -> tuple[str, str]:
    """Make a hook of somebody's organisation, or one for what is public; return its id and secret.

    Raises:
        ForbiddenError: it is for organisers. UsageError, ConflictError: see `hooks.add`.
    """
    if is_public and not actor.is_organiser:
        raise ForbiddenError("hooks for what is public are made by organisers")
    with instance.database.write() as connection:
        return hooks.add(connection, instance, None if is_public else actor.organisation, url)


@router.delete("/hooks/{hook}", status_code=204)
def remove(instance: TheInstance, actor: Submitter, hook: str) -> None:
    """Delete a hook; what it has not been sent yet it is not sent."""
    with instance.database.write() as connection:
        hooks.remove(connection, hooks.find(connection, actor, hook))


@router.post("/hooks/{hook}/rotate")
def rotate(instance: TheInstance, actor: Submitter, hook: str) -> dict[str, Any]:
    """Give a hook a new secret, which is shown this once; for a day, the old one signs as well."""
    with instance.database.write() as connection:
        return {"secret": hooks.rotate(connection, hooks.find(connection, actor, hook), instance.now_ms())}


@router.get("/hooks/{hook}/deliveries")
def deliveries(instance: TheInstance, actor: Submitter, hook: str) -> dict[str, Any]:
    """Return the newest deliveries of a hook, each with its state and why its last attempt failed."""
    with instance.database.read() as connection:
        return {"deliveries": hooks.deliveries(connection, hooks.find(connection, actor, hook), SHOWN)}


@router.post("/hooks/{hook}/test", status_code=202)
def test(instance: TheInstance, actor: Submitter, hook: str) -> dict[str, Any]:
    """Have a hook sent a test; one that arrives enables a hook again that was disabled."""
    with instance.database.write() as connection:
        return {"delivery": hooks.add_test(connection, hooks.find(connection, actor, hook), instance.now_ms())}
