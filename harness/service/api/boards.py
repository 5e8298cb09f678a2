"""The tables of the leaderboard."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query

from harness.service import results, schema
from harness.service.api.dependencies import TheInstance

router = APIRouter(tags=["boards"])


@router.get("/boards/{benchmark}")
def board(
    instance: TheInstance,
    benchmark: str,
    division: str = "closed",
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> dict[str, Any]:
    """Return the ranked results of a benchmark and division, the best first."""
    table = schema.board_row
    query = results.ranked().where(table.c.benchmark == benchmark, table.c.division == division)
    with instance.database.read() as connection:
        rows = connection.execute(query.order_by(table.c.seconds, table.c.verdict).limit(limit)).mappings().all()
    return {
        "benchmark": benchmark,
        "division": division,
        "rows": [{"submission": row["submission"], **json.loads(row["document"])} for row in rows],
    }
