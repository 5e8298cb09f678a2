"""The pages that everybody sees, each as far as they may."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from markupsafe import Markup
from sqlalchemy import and_, select, true
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response

from harness.board.charts.history import history_chart
from harness.board.charts.lines import Line
from harness.board.charts.scales import Label
from harness.board.pages.render import benchmark_slug
from harness.board.reproductions import Links
from harness.errors import printable
from harness.service import (
    checkpoints,
    desk,
    history,
    repetitions,
    results,
    schema,
    searching,
    submissions,
    submitting,
)
from harness.service.api import boards, rounds
from harness.service.api.submissions import cursor
from harness.service.instance import Instance
from harness.service.pages.render import fixed_pages, page, part, result_page
from harness.service.pages.session import actor_of, instance_of
from harness.service.people import Actor
from harness.service.states import IMPROVABLE, TRANSITIONS, Role, State, actions
from harness.service.submissions import NotThereError

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
FIRST_ROWS, PAGE_ROWS = 8, 50
METRICS = {"seconds": "score", "measured": "measured time", "energy": "energy", "cost": "cost"}
_WAITING = State.RECEIVED  # a page of such a submission looks again by itself
_FILTERS = (State.UNDER_REVIEW, State.OBJECTED, State.ACCEPTED, State.PUBLISHED, State.DISPUTED)
# What a page offers, and what somebody's token must be for: not what only programs do.
SCOPE_OF = {
    **dict.fromkeys(("withdraw", "check_again", "object", "comment", "dispute"), "submit"),
    **dict.fromkeys(("open_review", "accept", "reject", "uphold", "move_to_open", "retract"), "review"),
}


def html(template: str, path: str, actor: Actor, status: int = 200, **context: Any) -> HTMLResponse:
    """Return a page as it is shown to somebody."""
    return HTMLResponse(page(template, path, actor=actor if actor.is_known else None, **context), status)


def kept(
    instance: Instance,
    actor: Actor,
    template: str,
    path: str,
    key: tuple[object, ...],
    made: Callable[[], dict[str, Any]],
) -> HTMLResponse:
    """Return a page of the tables, made once in an edition for each `key` and each name and role of who looks at it.

    made: returns what is on it.
    """
    who = (actor.name, actor.is_auditor, actor.is_organiser) if actor.is_known else None
    return HTMLResponse(
        instance.of_edition((path, who, *key), lambda: bytes(html(template, path, actor, **made()).body))
    )


@router.get("/")
@router.get("/index.html")
def index(request: Request) -> Response:
    """The first results of each table under the rules of the newest round."""
    instance, actor = instance_of(request), actor_of(request)
    if not actor.is_known:
        return kept(instance, actor, "service_index.html", "", (), lambda: {"waiting": (), **_index(instance)})
    with instance.database.read() as connection:
        waiting = desk.waiting(connection, actor, instance.now_ms())
    return html("service_index.html", "", actor, waiting=waiting, **_index(instance))


def _index(instance: Instance) -> dict[str, Any]:
    with instance.database.read() as connection:
        digest = boards.current_digest(connection)
    tables = []
    for item in (item for item in _rulesets(instance) if item.digest == digest):
        for name in item.benchmarks:
            for division in item.divisions:
                found = boards.rows(instance, name, division, digest, "seconds", None, None, FIRST_ROWS)
                if found.rows:
                    has_more = found.next is not None
                    shown = {"rows": found.rows, "tallies": found.tallies, "has_more": has_more}
                    tables.append({"benchmark": name, "division": division, **shown})
    return {"tables": tables, "url": instance.settings.url}


@router.get("/benchmarks/{slug}.html")
def benchmark(
    request: Request,
    slug: str,
    division: Annotated[str, Query(max_length=100)] = "closed",
    metric: boards.Metric = "seconds",
    accelerator: Annotated[str, Query(max_length=300)] = "",
    ruleset: Annotated[str, Query(max_length=64)] = "",
    after: Annotated[str | None, Query(max_length=80)] = None,
) -> Response:
    """One table, page by page, and its best results over time."""
    instance, actor = instance_of(request), actor_of(request)
    names = {benchmark_slug(name): name for item in _rulesets(instance) for name in item.benchmarks}
    if slug not in names:
        raise NotThereError(f"there is no benchmark {printable(slug)!r}")
    chosen = {"division": division, "metric": metric, "accelerator": accelerator, "ruleset": ruleset}
    return kept(
        instance, actor, "service_benchmark.html", f"benchmarks/{slug}.html", (*chosen.values(), after),
        lambda: _benchmark(instance, names[slug], chosen, metric, after),
    )  # fmt: skip


def _benchmark(
    instance: Instance, name: str, chosen: dict[str, str], metric: boards.Metric, after: str | None
) -> dict[str, Any]:
    division, accelerator, digest = chosen["division"], chosen["accelerator"], chosen["ruleset"] or None
    found = boards.rows(instance, name, division, digest, metric, accelerator or None, after, PAGE_ROWS)
    asked = (name, division, digest, accelerator)
    best = instance.part_of_edition(("best", *asked), lambda: _best(boards.records(instance, *asked)).encode())
    rulesets = instance.part_of_edition(("rulesets",), lambda: json.dumps(boards.rulesets(instance)).encode())
    return {
        "name": name,
        "rows": found.rows,
        "tallies": found.tallies,
        "next": None if found.next is None else urlencode({**chosen, "after": found.next}),
        "digest": found.digest,
        "divisions": sorted({division for item in _rulesets(instance) for division in item.divisions}),
        "metrics": METRICS,
        "rulesets": json.loads(rulesets)["rulesets"],
        "best": Markup(best.decode()),  # noqa: S704  (made here)
        "page_size": PAGE_ROWS,
        **chosen,
    }


def _best(records: list[dict[str, Any]]) -> str:
    """What a page shows of the records of a table: the same below all its pages."""
    return part("service_records.html", root="../", records=records, chart=_chart(records))


def _rulesets(instance: Instance) -> list[Any]:
    return [instance.ruleset(name) for name in instance.settings.rulesets]


def _chart(records: list[dict[str, Any]]) -> Markup:
    """The best score over its improvements; empty below two."""
    if len(records) < 2:
        return Markup()
    shown = records[-12:]
    line = Line("best score", 0, [(float(number), item["seconds"]) for number, item in enumerate(shown)])
    days = [datetime.fromtimestamp(item["at_ms"] / 1000, UTC).date().isoformat() for item in shown]
    return history_chart(
        Label("records-chart", "Best score over time", "The best score after each publication that improved it."),
        days,
        [line],
        "seconds",
    )


@router.get("/results/{submission}.html")
def result(request: Request, submission: str) -> Response:
    """The numbers of a result, under its state."""
    instance, actor = instance_of(request), actor_of(request)
    with instance.database.read() as connection:
        found = submissions.find(connection, submission, actor)
        stored = connection.execute(select(schema.page.c.html).where(schema.page.c.verdict == found.verdict)).scalar()
        position = connection.execute(
            schema.position.select().where(schema.position.c.verdict == found.verdict)
        ).one_or_none()
        repeats = connection.execute(
            select(schema.board_row.c.repeats).where(schema.board_row.c.verdict == found.verdict)
        ).scalar()
        links = repetitions.links(connection, found.verdict, found.organisation_name) if found.verdict else Links()
    body = result_page(results.page_text(bytes(stored)), links, repeats) if stored else Markup()
    return html("service_result.html", f"results/{submission}.html", actor, found=found, body=body, position=position)


@router.get("/files/{submission}/{path:path}")
def file(request: Request, submission: str, path: str) -> FileResponse:
    """A file of a result, where its page has the link to it."""
    instance, actor = instance_of(request), actor_of(request)
    with instance.database.read() as connection:
        found = submissions.find(connection, submission, actor)
        return submitting.file_response(instance, found, submitting.files_of(connection, found.id), path)


@router.get("/rules/{path}")
@router.get("/static/{path}")
def fixed(request: Request, path: str) -> Response:
    """A page of the rules, or what pages refer to."""
    instance = instance_of(request)
    name = instance.settings.rulesets[0]
    place = request.url.path.lstrip("/")
    data = fixed_pages(name, instance.ruleset(name)).get(place)
    if data is None:
        raise NotThereError(f"there is no page {printable(place)!r}")
    kinds = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    return Response(data, media_type=kinds[place.rpartition(".")[2]])


@router.get("/submissions")
def listing(
    request: Request,
    mine: bool = False,
    state: State | None = None,
    after: Annotated[str | None, Query(max_length=60)] = None,
) -> Response:
    """The submissions that somebody sees."""
    instance, actor = instance_of(request), actor_of(request)
    table = schema.submission
    own = table.c.organisation == actor.organisation
    chosen = ([own] if mine else []) + ([table.c.state == state] if state is not None else [])
    is_first = not chosen and after is None
    with instance.database.read() as connection:
        items = submissions.page(connection, actor, PAGE_ROWS, cursor(after), and_(true(), *chosen))
        # Somebody who is known sees first what waits for them, and what is their team's.
        waiting = desk.waiting(connection, actor, instance.now_ms()) if is_first else []
        ours = submissions.page(connection, actor, FIRST_ROWS, None, own) if is_first and actor.is_known else []
    following = None
    if len(items) == PAGE_ROWS:
        last = items[-1]
        fields = ({"mine": "true"} if mine else {}) | ({"state": str(state)} if state is not None else {})
        following = urlencode({**fields, "after": f"{last.changed_ms}.{last.id}"})
    return html(
        "service_submissions.html", "submissions", actor, items=items, next=following, url=instance.settings.url,
        waiting=waiting, ours=ours, is_first=is_first, mine=mine, state=state, states=_FILTERS, first_rows=FIRST_ROWS,
    )  # fmt: skip


@router.get("/submissions/{submission}")
def submission_page(request: Request, submission: str) -> Response:
    """One submission: where it is, what was found and said, and what can be done."""
    return shown_submission(instance_of(request), actor_of(request), submission)


def shown_submission(
    instance: Instance, actor: Actor, submission: str, at: str | None = None, error: str = "", status: int = 200
) -> HTMLResponse:
    """Return the page of a submission. error: why what was asked for, at the path `at`, was not done."""
    with instance.database.read() as connection:
        found = submissions.find(connection, submission, actor)
        shown = history.of(connection, actor, found)
        roles = submissions.roles_of(connection, actor, found)
        files = submitting.files_of(connection, found.id)
        round_ = connection.execute(select(schema.round).where(schema.round.c.id == found.round)).one()
        has_page = (
            connection.execute(select(schema.page.c.verdict).where(schema.page.c.verdict == found.verdict)).scalar()
            is not None
        )
    return html(
        "service_submission.html",
        f"submissions/{submission}",
        actor,
        status,
        at=at,
        found=found,
        shown=shown,
        files=files,
        error=error,
        is_waiting=found.state is _WAITING and not error,
        round=round_,
        now_ms=instance.now_ms(),
        draft_days=instance.settings.limits.draft_days,
        is_own=Role.OWNER in roles,
        may_improve=Role.OWNER in roles and found.state in IMPROVABLE and found.superseded_by is None,
        has_page=has_page,
        actions=[item for item in actions(found.state, roles) if SCOPE_OF.get(item) in actor.scopes],
        twice=[action for action, item in TRANSITIONS.items() if item.num_people > 1],
        may_decide=Role.ORGANISER in roles and "review" in actor.scopes,
        proposals=[
            item
            for item in shown.get("proposals", ())
            if item["state"] == "open" and found.state in TRANSITIONS[item["action"]].sources
        ],
    )


@router.get("/submissions/{submission}/receipt.json")
def receipt(request: Request, submission: str) -> Response:
    """The receipt of an own submission, to be kept."""
    instance, actor = instance_of(request), actor_of(request)
    with instance.database.read() as connection:
        found = submitting.own_receipt(connection, instance, submissions.find(connection, submission, actor), actor)
    headers = {"content-disposition": 'attachment; filename="receipt.json"'}
    return JSONResponse(found.record(), headers=headers)


@router.get("/rounds")
def calendar(request: Request) -> Response:
    """The rounds and their times."""
    instance, actor = instance_of(request), actor_of(request)
    return html("service_rounds.html", "rounds", actor, now_ms=instance.now_ms(), **rounds.calendar(instance))


@router.get("/search")
def search(request: Request, q: Annotated[str, Query(max_length=100)] = "") -> Response:
    """Results by the beginnings of words."""
    instance, actor = instance_of(request), actor_of(request)
    return kept(instance, actor, "service_search.html", "search", (q,), lambda: {"q": q, **_found(instance, q)})


def _found(instance: Instance, q: str) -> dict[str, Any]:
    if not q.strip():
        return {"rows": (), "tallies": {}}
    with instance.database.read() as connection:
        rows = searching.found(connection, q, PAGE_ROWS)
        return {"rows": rows, "tallies": repetitions.tallies(connection, rows)}


@router.get("/log")
def log(request: Request) -> Response:
    """The log: its newest checkpoint, and how to use it."""
    instance = instance_of(request)
    note = checkpoints.newest(instance).note
    return html("service_log.html", "log", actor_of(request), note=note, key=instance.key.public)
