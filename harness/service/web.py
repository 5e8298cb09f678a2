"""The service over HTTP: the interface for programs at /api/v1, pages for people at /."""

from __future__ import annotations

import http
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from harness import __version__
from harness.errors import InputError, OutputError, TtaError, UsageError, printable
from harness.service.api import account, boards, log, review, rounds, submissions, uploads
from harness.service.database import is_unreachable
from harness.service.instance import Instance
from harness.service.submissions import ConflictError, ForbiddenError, NotThereError

# The most specific first.
_STATUS: tuple[tuple[type[TtaError], int], ...] = (
    (NotThereError, 404),
    (ForbiddenError, 403),
    (ConflictError, 409),
    (UsageError, 422),
    (InputError, 422),
    (OutputError, 507),
)

_KNOWN = frozenset(http.HTTPStatus)


def application(instance: Instance) -> FastAPI:
    """Return the application of a service."""
    app = FastAPI(
        title="Time to accuracy: leaderboard",
        version=__version__,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.instance = instance
    app.add_exception_handler(TtaError, _refused)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(SQLAlchemyError, _database_error)
    app.add_exception_handler(ClientDisconnect, _gone)
    for router in (
        account.router,
        submissions.router,
        uploads.router,
        boards.router,
        review.router,
        rounds.router,
        log.router,
    ):
        app.include_router(router, prefix="/api/v1")
    return app


def problem(status: int, detail: str, **more: Any) -> JSONResponse:
    """Return an answer about an error, as RFC 9457 has it."""
    title = http.HTTPStatus(status).phrase if status in _KNOWN else "Refused"
    content = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return JSONResponse(content, status, media_type="application/problem+json")


def _refused(request: Request, error: Exception) -> Response:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    return problem(status, printable(error, 2000))


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = problem(error.status_code, printable(error.detail, 500))
    answer.headers.update(error.headers or {})
    return answer


def _not_understood(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [
        {"place": ".".join(map(str, item["loc"])), "message": printable(item["msg"], 300)} for item in error.errors()
    ]
    first = f"{faults[0]['place']}: {faults[0]['message']}" if faults else "not understood"
    return problem(422, first, faults=faults[:20])


def _database_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, SQLAlchemyError)
    if not is_unreachable(error):
        raise error
    answer = problem(503, "the database cannot be reached; try again in a while")
    answer.headers["retry-after"] = "5"
    return answer


def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=400)  # nobody reads it
