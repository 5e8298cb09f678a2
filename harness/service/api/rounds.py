"""Rounds: the calendar, and new ones."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select

from harness.service import rounds, schema
from harness.service.api.dependencies import Organiser, TheInstance
from harness.service.rounds import Timetable
from harness.service.submissions import ForbiddenError

router = APIRouter(tags=["rounds"])
_LATEST_MS = 253_402_300_799_999  # the end of the year 9999
_COLUMNS = (
    "id", "name", "ruleset", "ruleset_digest", "is_reviewed", "opens_ms", "closes_ms", "objections_until_ms",
    "publish_ms",
)  # fmt: skip


class RoundModel(BaseModel):
    """A round to add. Times are milliseconds since 1970, UTC; those that are left out are at no set time."""

    model_config = ConfigDict(extra="forbid", strict=True)
    name: str = Field(max_length=100)
    ruleset: str = Field("v1", max_length=100)
    is_reviewed: bool = True
    opens_ms: int = Field(ge=0, le=_LATEST_MS)
    closes_ms: int | None = Field(None, ge=0, le=_LATEST_MS)
    objections_until_ms: int | None = Field(None, ge=0, le=_LATEST_MS)
    publish_ms: int | None = Field(None, ge=0, le=_LATEST_MS)


@router.get("/rounds")
def calendar(instance: TheInstance) -> dict[str, Any]:
    """Return the rounds, the newest first."""
    table = schema.round
    query = select(*(table.c[name] for name in _COLUMNS)).order_by(table.c.opens_ms.desc(), table.c.id)
    with instance.database.read() as connection:
        rows = connection.execute(query.limit(500)).mappings().all()
    return {"rounds": [dict(row) for row in rows]}


@router.post("/rounds", status_code=201)
def add(instance: TheInstance, actor: Organiser, body: RoundModel) -> dict[str, Any]:
    """Add a round, as an organiser."""
    if not actor.is_organiser:
        raise ForbiddenError("rounds are added by organisers")
    timetable = Timetable(body.opens_ms, body.closes_ms, body.objections_until_ms, body.publish_ms)
    with instance.database.write() as connection:
        found = rounds.add_round(
            connection, instance, body.name, body.ruleset, timetable, actor, is_reviewed=body.is_reviewed
        )
    return {"id": found}
