"""The line between referee and worker: one JSON object a line over a Unix socket. Standard library only.

JSON, because what comes from the worker is written by submitted code and must never be unpickled.
"""

from __future__ import annotations

import contextlib
import json
import math
import selectors
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import WorkerError

MAX_MESSAGE_BYTES = 4 << 20


class ChannelClosed(WorkerError):  # noqa: N818  (what happened, not whose error it is)
    """The other side is gone."""


class Channel:
    """One end of the line."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection, selectors.EVENT_READ)
        self._buffer = bytearray()

    @classmethod
    def connect(cls, path: Path) -> Channel:
        """The worker's end."""
        with contextlib.ExitStack() as undo:
            connection = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            connection.connect(str(path))
            undo.pop_all()
        return cls(connection)

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends one message.

        Raises:
            ChannelClosed: nobody is there to read it.
        """
        data = json.dumps(message).encode() + b"\n"
        self._socket.setblocking(True)
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ChannelClosed(f"the connection broke while sending: {error.strerror}") from None
        finally:
            self._socket.setblocking(False)

    def receive(self, timeout_s: float | None) -> dict[str, Any] | None:
        """The next message, or None if none came within `timeout_s` seconds (None: wait for ever).

        Raises:
            ChannelClosed: the other side closed the line. WorkerError: what came is no message.
        """
        # A worker that sends a byte now and then must not hold the referee beyond the time it gave.
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            remaining_s = None if timeout_s is None else max(0.0, deadline - time.monotonic())
            if not self._selector.select(remaining_s):
                return None
            try:
                piece = self._socket.recv(1 << 16)
            except BlockingIOError:
                continue
            except OSError as error:
                raise ChannelClosed(f"the connection broke: {error.strerror}") from None
            if not piece:
                raise ChannelClosed("the connection was closed")
            self._buffer += piece
            if len(self._buffer) > MAX_MESSAGE_BYTES:
                raise WorkerError(f"the worker sent a message of more than {MAX_MESSAGE_BYTES:,} bytes")
        line, _, rest = self._buffer.partition(b"\n")
        self._buffer = bytearray(rest)
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            raise WorkerError("the worker sent something that is no message") from None
        if not isinstance(message, dict):
            raise WorkerError("the worker sent something that is no message")
        return message

    def close(self) -> None:
        self._selector.close()
        self._socket.close()
