"""Exports, the feed, and whether the service is well."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from sqlalchemy import Connection, func, select

from harness.errors import InputError, UsageError
from harness.service import events, exporting, jobs, schema
from harness.service.api.dependencies import Organiser, TheInstance
from harness.service.instance import Instance
from harness.service.migrating import require_newest
from harness.service.submissions import ForbiddenError

router = APIRouter(tags=["exports"])
_SPOOLED_BYTES, _PIECE_BYTES = 1 << 20, 1 << 16
own = APIRouter(include_in_schema=False)  # at the root: for readers of feeds, and for what watches over processes


@router.get("/export/results.csv")
def results(instance: TheInstance) -> StreamingResponse:
    """Return every ranked result as CSV."""
    return _streamed(instance, exporting.results_csv, "results.csv")


@router.get("/export/results.parquet")
def results_as_parquet(instance: TheInstance) -> Response:
    """Return every ranked result as Parquet, with the columns of the CSV."""
    with instance.database.snapshot() as connection:
        data = exporting.results_parquet(connection)
    headers = {"content-disposition": 'attachment; filename="results.parquet"'}
    return Response(data, media_type="application/vnd.apache.parquet", headers=headers)


@router.get("/export/events.csv")
def public_events(instance: TheInstance) -> StreamingResponse:
    """Return every public event of the log as CSV, with the salt that opens its leaf."""
    return _streamed(instance, exporting.events_csv, "events.csv")


def _streamed(instance: Instance, lines: Callable[[Connection], Iterator[bytes]], name: str) -> StreamingResponse:
    # Read whole before it is sent: a client that takes its time must not have a connection of the database meanwhile.
    stream = tempfile.SpooledTemporaryFile(_SPOOLED_BYTES)  # noqa: SIM115  (closed by what sends it)
    with instance.database.snapshot() as connection:
        stream.writelines(lines(connection))
    stream.seek(0)

    def pieces() -> Iterator[bytes]:
        with stream:
            while piece := stream.read(_PIECE_BYTES):
                yield piece

    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(pieces(), media_type="text/csv; charset=utf-8", headers=headers)


@own.get("/feed.xml")
def feed(instance: TheInstance) -> Response:
    """Return the newest publications, disputes and retractions as Atom."""
    with instance.database.read() as connection:
        return Response(exporting.feed(connection, instance), media_type="application/atom+xml")


@own.get("/healthz")
def alive() -> PlainTextResponse:
    """Answer: the process does."""
    return PlainTextResponse("ok\n")


@own.get("/readyz")
def ready(instance: TheInstance) -> PlainTextResponse:
    """Answer whether the database can be reached and is of this version."""
    try:
        require_newest(instance.database)
    except (InputError, UsageError) as error:
        return PlainTextResponse(f"{error}\n", 503)
    return PlainTextResponse("ok\n")


@router.get("/metrics")
def metrics(instance: TheInstance, actor: Organiser) -> PlainTextResponse:
    """Return what a monitor watches, in Prometheus's text format; for an organiser's token of the scope admin."""
    if not actor.is_organiser:  # how many results wait in which state is under embargo
        raise ForbiddenError("the metrics are for organisers")
    now_ms = instance.now_ms()
    with instance.database.read() as connection:
        by_state = jobs.counts(connection)
        waiting_s = jobs.oldest_ready_ms(connection, now_ms) / 1000
        size = events.size(connection)
        table = schema.submission
        states = connection.execute(select(table.c.state, func.count()).group_by(table.c.state)).all()
    lines = ["# TYPE tta_jobs gauge"]
    lines += [f'tta_jobs{{state="{state}"}} {by_state.get(state, 0)}' for state in ("ready", "leased", "failed")]
    lines += ["# TYPE tta_oldest_job_seconds gauge", f"tta_oldest_job_seconds {waiting_s}"]
    lines += ["# TYPE tta_events_total counter", f"tta_events_total {size}"]
    lines += ["# TYPE tta_submissions gauge"]
    lines += [f'tta_submissions{{state="{state}"}} {count}' for state, count in states]
    free = shutil.disk_usage(instance.folder).free
    lines += ["# TYPE tta_free_bytes gauge", f"tta_free_bytes {free}"]
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")
