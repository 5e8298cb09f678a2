"""The service over HTTP: the interface for programs at /api/v1, pages for people at /."""

from __future__ import annotations

import asyncio
import contextlib
import http
import re
from collections.abc import AsyncIterator
from typing import Any

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from sqlalchemy.exc import DataError, SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harness import __version__
from harness.errors import InputError, OutputError, TtaError, UsageError, printable
from harness.service.api import account, boards, exports, hooks, log, review, rounds, submissions, uploads, witness
from harness.service.bodies import Turns
from harness.service.database import POOL_SIZE, is_unreachable, reason
from harness.service.instance import Instance
from harness.service.pages import acting, handing_in, provider, public
from harness.service.pages.render import CONTENT_POLICY, page
from harness.service.pages.session import actor_of
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

# What a page is called that says why something was not done; of another, as HTTP calls it.
_TITLES = {
    403: "Not permitted", 404: "Not found", 409: "Not possible now", 413: "Too large", 422: "Not understood",
    503: "Not available now",
}  # fmt: skip
_KNOWN = frozenset(http.HTTPStatus)
MAX_BODY_BYTES = 4 << 20  # a list of 2,000 files has less than a megabyte
NUM_TURNS = 8  # large bodies that are taken at a time, 32 MiB; a small one is taken all the same
MOST_WAITING = 256  # for a turn: as many connections as are answered at a time
WAIT_S, BODY_S = 20.0, 30.0  # for a turn, and from then on for all of a body
_SMALL_BODY_BYTES = 1 << 16
_STREAMED = re.compile(r"/api/v1/(submissions/[^/]+/files|uploads/[^/]+)")
_HEADERS = (
    (b"content-security-policy", f"{CONTENT_POLICY}; frame-ancestors 'none'".encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"private, no-cache"),
)


@contextlib.asynccontextmanager
async def _with_few_threads(_: FastAPI) -> AsyncIterator[None]:
    """Answer in as many threads as have a connection that is kept open: more would open one for each request."""
    to_thread.current_default_thread_limiter().total_tokens = POOL_SIZE
    yield


def application(instance: Instance) -> FastAPI:
    """Return the application of a service."""
    app = FastAPI(
        title="Time to accuracy: leaderboard",
        version=__version__,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_with_few_threads,
    )
    app.state.instance = instance
    app.add_exception_handler(TtaError, _refused)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(SQLAlchemyError, _database_error)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.include_router(public.router)  # first, since routes are tried in order, and these are asked for most
    for router in (account, boards, exports, hooks, log, review, rounds, submissions, uploads, witness):
        app.include_router(router.router, prefix="/api/v1")
    for pages in (exports.own, handing_in.router, acting.router, provider.router):
        app.include_router(pages)
    app.add_middleware(BoundedBodies, form_bytes=instance.settings.limits.max_form_bytes)
    app.add_middleware(SecurityHeaders)
    return app


class BoundedBodies:
    """Refuses a body that is too large, also one without an end, on every route that does not stream it.

    Large ones take turns: clients that stop before the end of what they send could otherwise fill the memory, and those
    that come again as soon as they are refused would keep the processor busy.

    A form with files is parsed, and its files spooled, while it arrives: only here can it be stopped.
    """

    def __init__(self, app: ASGIApp, form_bytes: int) -> None:
        self._app = app
        self._form_bytes = form_bytes
        self._turns = Turns(NUM_TURNS, MOST_WAITING)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _STREAMED.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return
        is_held = scope["path"] != handing_in.PATH  # whose files go to the disk
        limit = MAX_BODY_BYTES if is_held else self._form_bytes
        headers = dict(scope["headers"])
        said = headers.get(b"content-length", b"0")
        if not said.isdigit() or int(said) > limit:
            await _answer(Request(scope), 413, _too_large(limit))(scope, receive, send)
            return
        is_large = is_held and (int(said) > _SMALL_BODY_BYTES or b"transfer-encoding" in headers)
        address = scope["client"][0] if scope.get("client") else ""
        num_bytes, is_turn, ends_s = 0, False, None

        async def bounded() -> Message:
            nonlocal num_bytes, is_turn, ends_s
            if is_large and not is_turn:
                is_turn = await self._turns.take(address, WAIT_S)
                if not is_turn:
                    raise HTTPException(503, "too many large requests at once; try again later", {"retry-after": "5"})
                ends_s = asyncio.get_running_loop().time() + BODY_S
            try:
                async with asyncio.timeout_at(ends_s):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the request did not arrive within {BODY_S:.0f} s") from None
            num_bytes += len(message.get("body", b""))
            if num_bytes > limit:
                raise HTTPException(413, _too_large(limit))
            if not message.get("more_body", False):
                ends_s = None
            return message

        try:
            await self._app(scope, bounded, send)
        finally:
            if is_turn:
                self._turns.give_back(address)


def _too_large(limit: int) -> str:
    return f"a body has at most {limit:,} bytes here; `tta submit RESULT --to URL` sends larger results, in pieces"


class SecurityHeaders:
    """Adds the same headers to every answer, errors included; and none may be kept but those that say so."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message["headers"]}
                added = [(name, value) for name, value in _HEADERS if name not in names]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _answer(request: Request, status: int, detail: str, **more: Any) -> Response:
    """Return an answer about an error: a page to somebody who looks at pages."""
    if request.url.path.startswith("/api/"):
        return problem(status, detail, **more)
    title = _TITLES.get(status) or (http.HTTPStatus(status).phrase if status in _KNOWN else "Refused")
    actor = actor_of(request) if status not in (413, 500, 503) else None
    return HTMLResponse(
        page(
            "service_error.html",
            request.url.path.lstrip("/"),
            actor=actor if actor is not None and actor.is_known else None,
            title=title,
            detail=detail,
            status=status,
        ),
        status,
    )


def problem(status: int, detail: str, **more: Any) -> JSONResponse:
    """Return an answer about an error, as RFC 9457 has it."""
    title = http.HTTPStatus(status).phrase if status in _KNOWN else "Refused"
    content = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return JSONResponse(content, status, media_type="application/problem+json")


def _refused(request: Request, error: Exception) -> Response:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    return _answer(request, status, printable(error, 2000))


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = _answer(request, error.status_code, printable(error.detail, 500))
    answer.headers.update(error.headers or {})
    return answer


def _not_understood(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [
        {"place": ".".join(map(str, item["loc"])), "message": printable(item["msg"], 300)} for item in error.errors()
    ]
    first = f"{faults[0]['place']}: {faults[0]['message']}" if faults else "not understood"
    return _answer(request, 422, first, faults=faults[:20])


def _database_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, SQLAlchemyError)
    if isinstance(error, DataError):  # PostgreSQL keeps no NUL in a text
        return _answer(request, 422, f"a value in the request cannot be kept: {reason(error)}")
    if not is_unreachable(error):
        raise error
    answer = _answer(request, 503, "the database cannot be reached; try again in a while")
    answer.headers["retry-after"] = "5"
    return answer


def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=400)  # nobody reads it
