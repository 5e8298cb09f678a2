"""A client that comes before its referee, or whose connections are closed, tries again until its time is over."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.base import greeting
from harness.base.greeting import Challenge, Hello, SealedSocket, Service, connect, greeted, machine_id, serve_referee
from harness.base.json_socket import BadMessage, JsonSocket
from harness.errors import TtaError, WorkerError

SERVICE = Service("test", 1, "TTA_TEST_TOKEN", "client")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greeting, "RETRY_S", 0.02)


def test_client_waits_for_the_port() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        later = threading.Timer(0.2, listener.listen)
        later.start()
        connect(address, time.monotonic() + 10).close()
        later.join()


def test_client_whose_connections_are_closed_says_that_no_greeting_came_about() -> None:
    """After more than one attempt."""
    num_closed: list[int] = []
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)

        def close_all() -> None:
            while not is_over.is_set():
                with contextlib.suppress(TimeoutError):
                    listener.accept()[0].close()
                    num_closed.append(1)

        closing = threading.Thread(target=close_all)
        closing.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(TtaError, match="no greeting came about: the connection"):
            greeted(SERVICE, address, b"0" * 16, Hello(1, "n", None), time.monotonic() + 0.5)
        is_over.set()
        closing.join()
    assert len(num_closed) > 1


TOKEN = b"a token of the tests"


def accept(connection: socket.socket) -> None:
    channel = JsonSocket(connection)
    challenge = Challenge(SERVICE, channel)
    answer = channel.receive(10)
    assert answer is not None
    challenge.accept(answer, TOKEN, [1])


def error_of(error: Exception) -> Callable[[SealedSocket], bool]:
    def serve(sealed: SealedSocket) -> bool:
        raise error

    return serve


@pytest.mark.parametrize(
    ("referee", "serve", "message"),
    [
        (
            lambda connection: connection.sendall(b"{}\n"),
            lambda sealed: True,
            "what listens there is not a referee of tta",
        ),
        (lambda connection: connection.sendall(b"SSH-2.0\n"), lambda sealed: True, "what listens there sent "),
        (accept, lambda sealed: False, "the referee closed without a request: its run did not begin"),
        (
            accept,
            error_of(WorkerError("a request that is odd")),
            "the referee sent a request that is odd",
        ),
        (accept, error_of(BadMessage("no JSON")), "the referee sent no JSON"),
        (accept, lambda sealed: True, None),
    ],
)
def test_client_says_what_is_wrong_with_its_referee(
    monkeypatch: pytest.MonkeyPatch,
    referee: Callable[[socket.socket], None],
    serve: Callable[[SealedSocket], bool],
    message: str | None,
) -> None:
    """One sentence with the address; nothing where it was served to the end. The connection is closed in any case."""
    monkeypatch.setattr(greeting, "refuse_tracing", lambda: None)  # it is for a process of its own
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        is_closed: list[bool] = []

        def listen() -> None:
            connection, _ = listener.accept()
            with connection:
                referee(connection)
                connection.settimeout(10)
                while connection.recv(1 << 12):
                    pass
                is_closed.append(True)

        listening = threading.Thread(target=listen)
        listening.start()
        try:
            with pytest.raises(TtaError) if message else contextlib.nullcontext() as raised:
                serve_referee(SERVICE, address, TOKEN, 1, 10, serve)
        finally:
            listening.join()

    assert is_closed == [True]
    if message is not None:
        assert raised is not None
        assert str(raised.value).startswith(f"--connect {address}: {message}")


def test_machine_has_the_same_digest_and_never_its_id(tmp_path: Path) -> None:
    """None where systemd gave it none."""
    assert machine_id(tmp_path) is None
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "machine-id").write_text("\n")
    assert machine_id(tmp_path) is None
    (tmp_path / "etc" / "machine-id").write_text("0123456789abcdef0123456789abcdef\n")

    found = machine_id(tmp_path)

    assert found == machine_id(tmp_path)
    assert found is not None
    assert len(found) == 32
    assert "0123456789abcdef" not in found
