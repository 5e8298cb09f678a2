"""The site over HTTP, rebuilt when the tree changes. Needs starlette and uvicorn, so it is imported only when used."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harness.board.connections import BACKLOG, LimitedProtocol, descriptors
from harness.board.pages.render import CONTENT_POLICY
from harness.errors import OutputError, TtaError

CHECK_EVERY_S = 3.0
HEADERS = (
    (b"content-security-policy", f"{CONTENT_POLICY}; frame-ancestors 'none'".encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
)
_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]", "::1")

Build = Callable[[Path], None]


def signature(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Path, size and modification time of every file below `folder`: detects changes without reading the files."""
    found = []
    for parent, subfolders, names in os.walk(folder):
        subfolders.sort()
        for name in sorted(names):
            try:
                status = Path(parent, name).lstat()
            except OSError:  # removed in between; the next call sees that
                continue
            found.append((os.path.join(parent, name), status.st_size, status.st_mtime_ns))
    return tuple(found)


class LiveSite:
    """An ASGI application that serves the newest site that could be built.

    build: writes the site to a folder that does not exist yet. If it fails, the site stays as it was and the error goes
    to standard error.
    """

    def __init__(self, tree: Path, root: Path, build: Build, now: Callable[[], float] = time.monotonic) -> None:
        self._tree, self._root, self._build, self._now = tree, root, build, now
        self._number = 0
        self._lock = asyncio.Lock()
        self._seen = signature(tree)
        self._checked_s = now()
        self._files = self._built()

    def _built(self) -> StaticFiles:
        self._number += 1
        folder = self._root / f"site-{self._number}"
        self._build(folder)
        # The previous one is kept for responses that are still being sent.
        shutil.rmtree(self._root / f"site-{self._number - 2}", ignore_errors=True)
        return StaticFiles(directory=folder, html=True)

    def _refresh(self) -> None:
        seen = signature(self._tree)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._files = self._built()
        except TtaError as error:
            print(f"tta: the board was not rebuilt: {error}", file=sys.stderr)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._now() - self._checked_s >= CHECK_EVERY_S and not self._lock.locked():
            async with self._lock:
                await asyncio.to_thread(self._refresh)
                self._checked_s = self._now()
        await self._files(scope, receive, send)


class SecurityHeaders:
    """Adds the same headers to every response, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        await self._app(scope, receive, send_with_headers)


def application(tree: Path, root: Path, build: Build, host: str) -> Starlette:
    """The application. On the loopback interface it answers to local host names only, which prevents DNS rebinding: a
    foreign page cannot read the board by pointing its own name here.
    """
    allowed = list(_LOCAL_NAMES) if host in _LOCAL_NAMES else ["*"]
    return Starlette(
        routes=[Mount("/", app=LiveSite(tree, root, build))],
        middleware=[Middleware(SecurityHeaders), Middleware(TrustedHostMiddleware, allowed_hosts=allowed)],
    )


def serve(tree: Path, host: str, port: int, build: Build) -> None:
    """Serves until SIGINT or SIGTERM.

    Raises:
        OutputError: the address cannot be bound. TtaError: the first build failed.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise OutputError(f"{host}:{port}: cannot listen: {error}") from None
    with listener, tempfile.TemporaryDirectory(prefix="tta-board-") as root:
        app = application(tree, Path(root), build, host)
        address = listener.getsockname()
        print(f"http://{f'[{address[0]}]' if ':' in address[0] else address[0]}:{address[1]}/", flush=True)
        config = uvicorn.Config(
            app,
            http=type("SizedProtocol", (LimitedProtocol,), {"limit": descriptors()}),
            ws="none",
            backlog=BACKLOG,
            log_level="error",  # uvicorn warns of every request that is not HTTP, which anyone can send without end
            server_header=False,
            lifespan="off",
        )
        uvicorn.Server(config).run(sockets=[listener])
