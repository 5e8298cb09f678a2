"""The tables of the leaderboard, their records over time, and the rulesets behind them."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response
from sqlalchemy import ColumnElement, Connection, RowMapping, Select, bindparam, func, select, tuple_

from harness.board.reproductions import Tally
from harness.errors import UsageError, printable
from harness.log.events import canonical_json
from harness.service import repetitions, results, schema, searching
from harness.service.api.dependencies import TheInstance
from harness.service.instance import Instance
from harness.service.submissions import NotThereError

router = APIRouter(tags=["boards"])
Metric = Literal["seconds", "measured", "energy", "cost"]
_row = schema.board_row
_COLUMNS = {
    "seconds": _row.c.seconds,
    "measured": _row.c.measured_seconds,
    "energy": _row.c.joules,
    "cost": _row.c.usd,
}
Text = Annotated[str | None, Query(max_length=300)]


def _kept(instance: Instance, key: tuple[object, ...], make: Callable[[], str]) -> Response:
    """Return an answer that is the same for everybody, made once in an edition. make: returns it as JSON."""
    return Response(_kept_body(instance, key, make), media_type="application/json")


def _kept_body(instance: Instance, key: tuple[object, ...], make: Callable[[], str]) -> bytes:
    return instance.of_edition(key, lambda: make().encode())


def _with(fields: dict[str, Any], name: str, text: str) -> str:
    """Return an object as JSON, with one more member, which is JSON already."""
    return f'{canonical_json(fields)[:-1]},"{name}":{text}}}'


@router.get("/boards", response_model=dict[str, Any])
def boards(instance: TheInstance) -> Response:
    """Return the tables: benchmark, division and ruleset, with the number of ranked results and the best score."""
    return _kept(instance, ("boards",), lambda: canonical_json(_tables(instance)))


def _tables(instance: Instance) -> dict[str, Any]:
    keys = (_row.c.benchmark, _row.c.division, _row.c.ruleset, _row.c.ruleset_digest)
    query = results.ranked().with_only_columns(*keys, func.count().label("num"), func.min(_row.c.seconds).label("best"))
    with instance.database.read() as connection:
        rows = connection.execute(query.group_by(*keys).order_by(*keys)).all()
    return {
        "tables": [
            {
                "benchmark": row.benchmark, "division": row.division, "ruleset": row.ruleset,
                "ruleset_digest": row.ruleset_digest, "results": row.num, "best_seconds": row.best,
            }
            for row in rows
        ]
    }  # fmt: skip


@router.get("/boards/{benchmark}", response_model=dict[str, Any])
def board(
    instance: TheInstance,
    benchmark: str,
    division: Annotated[str, Query(max_length=100)] = "closed",
    ruleset: Text = None,
    metric: Metric = "seconds",
    accelerator: Text = None,
    after: Annotated[str | None, Query(max_length=80)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """Return the ranked results of a benchmark and division, the best first.

    ruleset: a digest; without it, the one that the newest round has. after: `next` of the answer before.
    """
    asked = (benchmark, division, ruleset, metric, accelerator, after, limit)

    def made() -> str:
        found = rows(instance, *asked, whole=True)
        fields = {
            "benchmark": benchmark,
            "division": division,
            "ruleset_digest": found.digest,
            "metric": metric,
            "next": found.next,
        }
        return _with(fields, "rows", _records_of(found.rows, found.tallies))

    return _kept(instance, ("board", *asked), made)


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a table. tallies: of the reproductions of each, by verdict. next: what to ask for those after them;
    None: these are the last."""

    digest: str
    rows: Sequence[RowMapping]
    tallies: Mapping[str, Tally]
    next: str | None


def rows(
    instance: Instance,
    benchmark: str,
    division: str,
    ruleset: str | None,
    metric: Metric,
    accelerator: str | None,
    after: str | None,
    limit: int,
    *,
    whole: bool = False,
) -> Rows:
    """Return rows of a table in the order of a metric, as the interface and the pages show them.

    whole: with the document of each result, which only the interface gives.

    Raises:
        UsageError: `after` is not what was given as `next`.
    """
    column = _COLUMNS[metric]
    values: dict[str, Any] = {"benchmark": benchmark, "division": division, "accelerator": accelerator, "num": limit}
    values |= {"num_places": limit + limit // 4 + 1, **_place(after)}  # a few are not ranked
    found: list[RowMapping] = []
    with instance.database.read() as connection:
        values["digest"] = digest = ruleset or current_digest(connection)
        query = results.scored(connection.dialect.name) if whole else results.listed()
        places = _places(metric, of_accelerator=accelerator is not None)
        while True:
            found += connection.execute(_page(query, places, column), values).mappings()
            if len(found) >= limit or (end := connection.execute(_end(places), values).one_or_none()) is None:
                break
            values |= end._asdict()
        found = found[:limit]
        tallies = repetitions.tallies(connection, found)
    last = found[-1] if len(found) == limit else None
    return Rows(digest, found, tallies, None if last is None else f"{last[column.name]!r}.{last['verdict']}")


_newest_round = (
    select(schema.round.c.ruleset_digest).order_by(schema.round.c.opens_ms.desc(), schema.round.c.id.desc()).limit(1)
)


def current_digest(connection: Connection) -> str:
    """Return the digest of the ruleset of the newest round; empty where there is none."""
    return str(connection.execute(_newest_round).scalar() or "")


def _place(after: str | None) -> dict[str, Any]:
    if after is None:
        return {"value": -math.inf, "verdict": ""}
    text, _, verdict = after.rpartition(".")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not verdict.isalnum():
        raise UsageError(f"after: {printable(after)!r} is not what an answer gave as `next`")
    return {"value": value, "verdict": verdict}


# Statements are made once: SQLAlchemy makes one in the time in which a database answers another.


@functools.cache
def _places(metric: Metric, *, of_accelerator: bool) -> Select[Any]:
    """Return the query of the rows of a table after a place, ranked or not, as one range of an index."""
    column = _COLUMNS[metric]
    of_table: list[ColumnElement[bool]] = [
        _row.c.benchmark == bindparam("benchmark"),
        _row.c.division == bindparam("division"),
        _row.c.ruleset_digest == bindparam("digest"),
        _row.c.seconds.is_not(None),
    ]
    if of_accelerator:
        of_table.append(_row.c.accelerator == bindparam("accelerator"))
    is_after = tuple_(column, _row.c.verdict) > tuple_(bindparam("value"), bindparam("verdict"))
    return select(column.label("value"), _row.c.verdict).where(*of_table, is_after).order_by(column, _row.c.verdict)


@functools.cache
def _page(query: Select[Any], places: Select[Any], column: ColumnElement[Any]) -> Select[Any]:
    """Return the query of the ranked ones among so many places.

    The places are chosen before the joins: PostgreSQL expects a single row of these, and would join a whole table.
    """
    near = places.limit(bindparam("num_places")).subquery("place")
    query = query.join(near, near.c.verdict == _row.c.verdict)
    return query.order_by(column, _row.c.verdict).limit(bindparam("num"))


@functools.cache
def _end(places: Select[Any]) -> Select[Any]:
    """Return the query of the last one of so many places; of none, if there are fewer."""
    return places.offset(bindparam("num_places") - 1).limit(1)


def _records_of(rows: Sequence[RowMapping], tallies: Mapping[str, Tally], *names: str) -> str:
    """Return rows as JSON. names: of columns that are there, too."""
    return f"[{','.join(_record(row, tallies[row['verdict']], names) for row in rows)}]"


def _record(row: RowMapping, tally: Tally, names: Sequence[str]) -> str:
    fields = {
        "submission": row["submission"],
        "organisation": row["organisation_name"],
        "system": row["system"],
        "category": row["category"],
        "state": row["state"],
        "published_ms": row["published_ms"],
        "accelerator": row["accelerator"],
        "num_accelerators": row["num_accelerators"],
        "witness": row["witness"],
        "ranks": None if row["first"] is None else [row["first"], row["last"]],
        "digest": row["digest"],
        "repeats": row["repeats"],
        "reproduced": tally.record(),
        **{name: row[name] for name in names},
    }
    return _with(fields, "score", row["score"])


@router.get("/boards/{benchmark}/records", response_model=dict[str, Any])
def board_records(
    instance: TheInstance,
    benchmark: str,
    division: Annotated[str, Query(max_length=100)] = "closed",
    ruleset: Text = None,
    accelerator: Annotated[str, Query(max_length=300)] = "",
) -> Response:
    """Return which results were the best when they were published. accelerator: among those with this one."""
    asked = (benchmark, division, ruleset, accelerator)
    return _kept(instance, ("records", *asked), lambda: canonical_json(_records(instance, *asked)))


def records(
    instance: Instance, benchmark: str, division: str, ruleset: str | None, accelerator: str
) -> list[dict[str, Any]]:
    """Return the records of a table for its pages: what the interface gives, from what is kept of that."""
    asked = (benchmark, division, ruleset, accelerator)
    body = _kept_body(instance, ("records", *asked), lambda: canonical_json(_records(instance, *asked)))
    found: list[dict[str, Any]] = json.loads(body)["records"]
    return found


def _records(
    instance: Instance, benchmark: str, division: str, ruleset: str | None, accelerator: str
) -> dict[str, Any]:
    table, submission, organisation = schema.record, schema.submission, schema.organisation
    with instance.database.read() as connection:
        digest = ruleset or current_digest(connection)
        rows = connection.execute(
            select(table.c.submission, table.c.at_ms, table.c.seconds, submission.c.system, organisation.c.name)
            .select_from(table.join(submission).join(organisation, organisation.c.id == submission.c.organisation))
            .where(
                table.c.benchmark == benchmark,
                table.c.division == division,
                table.c.ruleset_digest == digest,
                table.c.accelerator == accelerator,
            )
            .order_by(table.c.at_ms, table.c.seconds.desc())
        ).all()
    return {
        "benchmark": benchmark,
        "division": division,
        "ruleset_digest": digest,
        "records": [
            {
                "submission": row.submission, "at_ms": row.at_ms, "seconds": row.seconds, "organisation": row.name,
                "system": row.system,
            }
            for row in rows
        ],
    }  # fmt: skip


@router.get("/rulesets")
def rulesets(instance: TheInstance) -> dict[str, Any]:
    """Return the rulesets that results were judged by, as this `tta` has them or not."""
    own = {name: instance.ruleset(name).digest for name in instance.settings.rulesets}
    with instance.database.read() as connection:
        known = set(own.items()) | {(name, digest) for name, digest in connection.execute(_judged_by())}
    return {
        "rulesets": [
            {"name": name, "digest": digest, "is_current": own.get(name) == digest} for name, digest in sorted(known)
        ]
    }


def _judged_by() -> Select[Any]:
    """Return the query of the rulesets in the verdicts: from one to the next in an index, and not by all verdicts."""
    name, digest = schema.verdict.c.ruleset, schema.verdict.c.ruleset_digest
    step = select(func.min(digest).label("digest")).cte("judged_by", recursive=True)
    following = select(func.min(digest)).where(digest > step.c.digest).scalar_subquery()
    step = step.union_all(select(following).where(step.c.digest.is_not(None)))
    named = select(func.min(name)).where(digest == step.c.digest).scalar_subquery()
    return select(named, step.c.digest).where(step.c.digest.is_not(None))


@router.get("/rulesets/{digest}")
def ruleset(instance: TheInstance, digest: str) -> dict[str, Any]:
    """Return the benchmarks of a ruleset of this service: metric, target, runs, permitted hyperparameters' names."""
    for name in instance.settings.rulesets:
        found = instance.ruleset(name)
        if found.digest == digest:
            return {
                "name": name,
                "digest": digest,
                "divisions": list(found.divisions),
                "codes": dict(found.codes),
                "benchmarks": {
                    rules.name: {
                        "metric": rules.metric.name,
                        "direction": rules.metric.direction,
                        "target": rules.target,
                        "num_runs": rules.num_runs,
                        "hyperparameters": sorted(rules.hyperparameters),
                    }
                    for rules in found.benchmarks.values()
                },
            }
    raise NotThereError(f"this service has no ruleset with the digest {printable(digest)}")


@router.get("/search", response_model=dict[str, Any])
def search(
    instance: TheInstance,
    q: Annotated[str, Query(min_length=1, max_length=100)],
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """Return ranked results in which each word begins a word of a name, those that were announced last first."""

    def made() -> str:
        with instance.database.read() as connection:
            rows = searching.found(connection, q, limit, whole=True)
            tallies = repetitions.tallies(connection, rows)
        return f'{{"rows":{_records_of(rows, tallies, "benchmark", "division")}}}'

    return _kept(instance, ("search", q, limit), made)
