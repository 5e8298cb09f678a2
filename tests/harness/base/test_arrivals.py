"""Connections that are gone before they are heard; who may come in is tested with the services' own clients."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from harness.base.arrivals import MAX_PENDING, Arrivals, Door
from harness.base.greeting import Service

SERVICE = Service("toy", 1, "TOY_TOKEN", "client")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=2 * MAX_PENDING) as listener:
        yield listener


@pytest.fixture
def arrivals(listener: socket.socket) -> Iterator[Arrivals[Any]]:
    found: Arrivals[Any] = Arrivals(SERVICE, (Door(listener, b"t" * 32, range(1, 3)),), lambda *_: None, print)
    yield found
    found.close()


def num_open(arrivals: Arrivals[Any]) -> int:
    return len(arrivals._pending)


def test_connection_that_was_reset_at_once_is_dropped(listener: socket.socket, arrivals: Arrivals[Any]) -> None:
    """Reset before the challenge is sent: no connection is left, and the next one is heard."""
    gone = socket.create_connection(listener.getsockname())
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    gone.close()
    arrivals.wait(5.0)
    assert num_open(arrivals) == 0

    with socket.create_connection(listener.getsockname()):
        arrivals.wait(5.0)
        assert num_open(arrivals) == 1


def test_connection_that_was_just_dropped_is_not_heard(listener: socket.socket, arrivals: Arrivals[Any]) -> None:
    """One more than may wait drops the oldest, whose own message was reported in the same moment."""
    with ExitStack() as opened:
        strangers = []
        for number in range(MAX_PENDING):
            strangers.append(opened.enter_context(socket.create_connection(listener.getsockname())))
            arrivals.wait(5.0)
            assert num_open(arrivals) == number + 1
        opened.enter_context(socket.create_connection(listener.getsockname()))
        strangers[0].sendall(b'{"hello": 1}\n')

        arrivals.wait(5.0)

        assert num_open(arrivals) == MAX_PENDING
        assert strangers[0].getsockname() not in {held.getpeername() for held in arrivals._pending}
