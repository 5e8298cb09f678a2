"""A client that comes before its referee, or whose connections are closed, tries again until its time is over."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from harness.base import greeting
from harness.base.greeting import Hello, Service, connect, greeted
from harness.errors import TtaError

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
