"""Attacks on the board over HTTP: requests that never end, responses that no one takes, more connections than files."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.harness.board.test_index import submit
from tests.killing import until

pytest.importorskip("uvicorn")

import uvicorn
from starlette.types import Receive, Scope, Send

from harness.board import connections
from harness.board.connections import LimitedProtocol

ROOT = Path(__file__).parents[3]
REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
BODY = b"x" * (16 << 20)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with a word, or at /large with 16 MiB."""
    body = [b"hello"] if scope["path"] == "/" else [BODY[: 1 << 16]] * 256
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for piece in body:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


class Served:
    """The application behind the limits, in a thread."""

    def __init__(self, undo: ExitStack, limit: int) -> None:
        self._undo = undo
        listener = undo.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.address = listener.getsockname()
        protocol = type("Sized", (LimitedProtocol,), {"limit": limit})
        config = uvicorn.Config(app, http=protocol, ws="none", log_level="error", lifespan="off", backlog=100)
        self.server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listener]})
        self._thread.start()
        undo.callback(self._end)
        assert until(lambda: self.server.started, 30)

    def _end(self) -> None:
        self.server.should_exit = self.server.force_exit = True
        self._thread.join()

    def connect(self, said: bytes = b"") -> socket.socket:
        connection = self._undo.enter_context(socket.create_connection(self.address, 20.0))
        connection.sendall(said)
        return connection

    def ask(self) -> bytes:
        """An honest request."""
        return read(self.connect(REQUEST + b"Connection: close\r\n\r\n"))

    @property
    def num_open(self) -> int:
        return len(self.server.server_state.connections)


def read(connection: socket.socket) -> bytes:
    """All that comes until the end."""
    found = []
    with suppress(ConnectionResetError):
        while piece := connection.recv(1 << 16):
            found.append(piece)
    return b"".join(found)


Serve = Callable[..., Served]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """A function that serves with these limits."""
    with ExitStack() as undo:

        def begin(limit: int = 100, request_s: float = 60.0, response_s: float = 60.0) -> Served:
            monkeypatch.setattr(connections, "REQUEST_S", request_s)
            monkeypatch.setattr(connections, "RESPONSE_S", response_s)
            return Served(undo, limit)

        yield begin


@pytest.mark.parametrize(
    "said",
    [b"", b"GET", REQUEST, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx"],
    ids=["nothing", "a word", "half of the headers", "half of a body"],
)
def test_half_a_request_is_cut_off(serve: Serve, said: bytes) -> None:
    """A byte now and then does not extend the time."""
    served = serve(request_s=0.5)
    connection = served.connect(said)
    connection.settimeout(0.05)
    began = time.monotonic()
    is_over = False
    while not is_over and time.monotonic() - began < 20.0:
        try:
            connection.sendall(b"a")
            is_over = connection.recv(1 << 16) == b""
        except TimeoutError:
            continue
        except OSError:
            is_over = True

    assert is_over
    assert 0.3 < time.monotonic() - began < 10.0
    assert until(lambda: served.num_open == 0, 10)
    assert served.ask().endswith(b"hello\r\n0\r\n\r\n")


def test_response_that_no_one_takes_is_cut_off(serve: Serve) -> None:
    """One that is taken is whole, however large it is."""
    served = serve(response_s=4.0)
    large = REQUEST.replace(b"/ ", b"/large ", 1) + b"Connection: close\r\n\r\n"
    assert len(read(served.connect(large))) > len(BODY)

    connection = served.connect(large)
    assert until(lambda: served.num_open == 1, 10)
    assert until(lambda: served.num_open == 0, 10)
    assert len(read(connection)) < len(BODY)


@pytest.mark.parametrize("said", [b"", REQUEST, REQUEST.replace(b"/ ", b"/large ", 1) + b"\r\n"])
def test_more_connections_than_there_may_be_do_not_keep_others_out(serve: Serve, said: bytes) -> None:
    """The oldest is cut off, whether it waits or is answered; an honest request is answered at once."""
    served = serve(limit=20)
    held = [served.connect(said) for _ in range(60)]
    began = time.monotonic()
    for _ in range(10):
        assert served.ask().endswith(b"hello\r\n0\r\n\r\n")
    assert time.monotonic() - began < 10.0
    assert until(lambda: served.num_open <= 20, 10)
    assert len(held) == 60


def test_address_with_the_most_connections_loses_one(serve: Serve) -> None:
    """A patient client elsewhere keeps its own."""
    served = serve(limit=10)
    patient = socket.create_connection(served.address, 20.0, source_address=("127.0.0.2", 0))
    patient.sendall(REQUEST)
    assert until(lambda: served.num_open == 1, 10)
    for _ in range(40):
        served.connect(REQUEST)
    assert until(lambda: served.num_open == 10, 10)
    patient.sendall(b"Connection: close\r\n\r\n")

    assert read(patient).endswith(b"hello\r\n0\r\n\r\n")
    patient.close()


def test_one_connection_may_ask_again(serve: Serve) -> None:
    """The time begins again with every response."""
    served = serve(request_s=3.0)
    connection = served.connect()
    for _ in range(3):
        time.sleep(1.2)
        connection.sendall(REQUEST + b"\r\n")
        answer = b""
        while not answer.endswith(b"0\r\n\r\n"):
            piece = connection.recv(1 << 16)
            assert piece
            answer += piece


@pytest.mark.parametrize(("soft", "found"), [(128, 56), (1024, 512), (60, 16), (resource.RLIM_INFINITY, 512)])
def test_connections_leave_descriptors_for_the_rest(monkeypatch: pytest.MonkeyPatch, soft: int, found: int) -> None:
    """However many the process may have."""
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft, soft))

    assert connections.descriptors() == found


@pytest.mark.slow
def test_300_half_open_connections_at_128_descriptors(tmp_path: Path) -> None:
    """The board answers, and its standard error stays empty; lines that are not HTTP do not fill it either."""
    submit(tmp_path / "tree")
    command = f"ulimit -n 128; exec {sys.executable} -m harness.cli board serve {tmp_path / 'tree'} --port 0"
    environment: dict[str, Any] = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        ["bash", "-c", command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        host, _, port = process.stdout.readline().strip().removeprefix("http://").rstrip("/").partition(":")
        held, times_s = [], []
        for number in range(300):
            held.append(socket.create_connection((host, int(port)), 20.0))
            with suppress(OSError):
                held[-1].sendall(b"\x00 nonsense\r\n\r\n" if number % 10 == 0 else REQUEST)
        for _ in range(20):
            began = time.monotonic()
            with socket.create_connection((host, int(port)), 20.0) as connection:
                connection.sendall(REQUEST + b"Connection: close\r\n\r\n")
                assert read(connection).startswith(b"HTTP/1.1 200")
            times_s.append(time.monotonic() - began)
        for each in held:
            each.close()
        process.terminate()
        _, errors = process.communicate(timeout=20)

    assert sorted(times_s)[10] < 1.0
    assert errors == "tta: interrupted by a signal\n"
