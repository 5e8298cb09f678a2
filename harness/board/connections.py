"""The limits on connections to the board over HTTP that uvicorn lacks: their time and their number."""

from __future__ import annotations

import asyncio
import resource
from collections import Counter

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 10.0  # from the connection, or the previous response, to a whole request
RESPONSE_S = 120.0  # for the client to take the response
MAX_DESCRIPTORS = 512  # a connection has one, and one more while it is answered: a file
# Connections that the kernel holds, and that are accepted at a time, before any is seen here. Without room there, a
# client tries again after a second: that slows down whoever opens connections without end, and is why this is small.
BACKLOG = 16
RESERVED = 56  # for the rest of the process, and for connections that are being closed


def descriptors() -> int:
    """Return how many descriptors this process has for connections, at most `MAX_DESCRIPTORS`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_DESCRIPTORS
    return max(16, min(MAX_DESCRIPTORS, soft - BACKLOG - RESERVED))


class LimitedProtocol(H11Protocol):
    """One connection. A client that is slow with its request, or with taking the response, is cut off.

    If there are too many, the address that has the most loses the one whose request, or the answer to it, has taken
    longest: an honest one takes milliseconds.

    limit: how many descriptors all may have. since_s: when it was made, or its previous response was complete.
    """

    limit = MAX_DESCRIPTORS
    since_s = 0.0
    _timer: asyncio.TimerHandle | None = None

    @property
    def is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        was_answering = self.is_answering
        super().data_received(data)
        if self.is_answering and not was_answering:
            self._begin()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._begin()

    def _begin(self) -> None:
        """Begin to wait for a request, or to answer one."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.is_answering:
            self.since_s = self.loop.time()
        self._timer = self.loop.call_later(RESPONSE_S if self.is_answering else REQUEST_S, self.transport.abort)
        _make_room([each for each in self.connections if isinstance(each, LimitedProtocol)], self.limit)


def _make_room(connections: list[LimitedProtocol], limit: int) -> None:
    among = [each for each in connections if not each.transport.is_closing()]
    while sum(2 if each.is_answering else 1 for each in among) > limit:
        [(busiest, _)] = Counter(each.address for each in among).most_common(1)
        oldest = min((each for each in among if each.address == busiest), key=lambda each: each.since_s)
        oldest.transport.abort()
        among.remove(oldest)
