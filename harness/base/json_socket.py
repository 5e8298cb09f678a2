"""One JSON object per line over a socket, in both directions. Standard library only.

JSON, because the other side may be untrusted code, whose messages must never be unpickled.
"""

from __future__ import annotations

import contextlib
import json
import math
import selectors
import socket
import time
from collections.abc import Mapping
from typing import Any

from harness.errors import TtaError

MAX_MESSAGE_BYTES = 4 << 20


class SocketClosed(TtaError):  # noqa: N818  (an event, not necessarily an error)
    """The other side is gone."""


class BadMessage(TtaError):  # noqa: N818  (as SocketClosed)
    """The other side sent something that is not a message: what it sent, as a noun."""


def parsed(text: str | bytes | bytearray) -> dict[str, Any]:
    """Return the message that a line has.

    Raises:
        BadMessage: it is not a JSON object.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise BadMessage("something that is not a message") from None
    if not isinstance(message, dict):
        raise BadMessage("something that is not a message")
    return message


class JsonSocket:
    """One end of the connection.

    max_bytes: the longest message that is received. send_s: how long sending one may take; None: for ever.
    """

    def __init__(
        self, connection: socket.socket, max_bytes: int = MAX_MESSAGE_BYTES, send_s: float | None = None
    ) -> None:
        self.max_bytes = max_bytes
        self._send_s = send_s
        self._socket = connection
        self._socket.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection, selectors.EVENT_READ)
        self._buffer = bytearray()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message.

        Raises:
            SocketClosed: the connection is closed on either side, or the other takes nothing for `send_s` seconds.
        """
        data = json.dumps(message).encode() + b"\n"
        try:
            self._socket.settimeout(self._send_s)
            self._socket.sendall(data)
        except OSError as error:
            raise SocketClosed(f"the connection broke while sending: {error.strerror or error}") from None
        finally:
            with contextlib.suppress(OSError):  # it is closed
                self._socket.setblocking(False)

    def receive(self, timeout_s: float | None) -> dict[str, Any] | None:
        """Return the next message, or None if none arrives within `timeout_s` seconds (None: wait for ever).

        Raises:
            SocketClosed: the other side closed the connection. BadMessage: a line is not a JSON object, or too long.
        """
        # A peer that sends a byte now and then must not hold the caller beyond its timeout.
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
                raise SocketClosed(f"the connection broke: {error.strerror}") from None
            if not piece:
                raise SocketClosed("the connection was closed")
            self._buffer += piece
            if len(self._buffer) > self.max_bytes:
                raise BadMessage(f"a message of more than {self.max_bytes:,} bytes")
        line, _, rest = self._buffer.partition(b"\n")
        self._buffer = bytearray(rest)
        return parsed(line)

    @property
    def addresses(self) -> tuple[str, str]:
        """The addresses of this end of a TCP connection, and of the other."""
        return str(self._socket.getsockname()[0]), str(self._socket.getpeername()[0])

    def end(self) -> None:
        """End the connection without closing it: a `receive` that waits in another thread ends, too."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._selector.close()
        self._socket.close()
