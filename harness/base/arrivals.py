"""The arrival of clients at the referee: any number of connections greet at a time, and none holds up another."""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from harness.base.greeting import GREETING_S, MAX_GREETING_BYTES, Challenge, Hello, Refused, SealedSocket, Service
from harness.base.json_socket import BadMessage, JsonSocket, SocketClosed
from harness.errors import printable

MAX_PENDING = 32
MAX_REPORTED = 5  # different refusals; what is repeated or comes later is counted
MAX_MESSAGE_BYTES = 1 << 20
SEND_S = 10.0


class Client(Protocol):
    """The referee's side of an accepted connection. is_lost: the other side is gone for good."""

    @property
    def is_lost(self) -> bool: ...
    def close(self) -> None: ...


C = TypeVar("C", bound=Client)


@dataclass(frozen=True, slots=True)
class Door:
    """Where clients connect, with what token, and which nodes they can be."""

    listener: socket.socket
    token: bytes
    nodes: range


@dataclass(frozen=True, slots=True)
class _Pending:
    """A connection that has not greeted yet. is_own: by the Unix socket, which only this user reaches."""

    connection: socket.socket
    channel: JsonSocket
    challenge: Challenge
    door: Door
    peer: str
    is_own: bool
    deadline_s: float


class Arrivals(Generic[C]):
    """Accepts the clients of a service at `doors`, one for each node, and makes each of them a `join`.

    nodes: those that are here, by number. say: reports who was refused and why, once for each address and reason. A
    connection that its other side closes is dropped without a word.

    A connection has `GREETING_S` in all. At most `MAX_PENDING` greet at a time: one more, and the oldest of the address
    that has the most of them is dropped, since an honest one needs a round trip.
    """

    def __init__(
        self,
        service: Service,
        doors: tuple[Door, ...],
        join: Callable[[SealedSocket, Hello], C],
        say: Callable[[str], None],
    ) -> None:
        self.nodes: dict[int, C] = {}
        self.num_refused = 0
        self.last_refusal = ""
        self._service = service
        self._join = join
        self._say = say
        self._reported: set[str] = set()
        self._pending: dict[socket.socket, _Pending] = {}
        self._selector = selectors.DefaultSelector()
        for door in doors:
            door.listener.setblocking(False)
            self._selector.register(door.listener, selectors.EVENT_READ, door)

    def wait(self, timeout_s: float) -> None:
        """Take what arrives, at the latest after `timeout_s` seconds."""
        for key, _ in self._selector.select(timeout_s):
            if isinstance(key.data, Door):
                self._open(key.data)
            elif key.data.connection in self._pending:  # unless it was just dropped
                self._hear(key.data)
        now_s = time.monotonic()
        for pending in [pending for pending in self._pending.values() if pending.deadline_s <= now_s]:
            self._refuse(pending, f"no greeting within {GREETING_S:g} s")
        for number in [number for number, node in self.nodes.items() if node.is_lost]:
            self.nodes.pop(number).close()  # it may come again

    def close(self) -> None:
        """Drop all that have not greeted; the nodes stay open."""
        for pending in list(self._pending.values()):
            self._drop(pending)
        self._selector.close()

    def _open(self, door: Door) -> None:
        try:
            connection, address = door.listener.accept()
        except OSError as error:
            self._make_room(is_needed=error.errno in (errno.EMFILE, errno.ENFILE))
            return
        is_own = connection.family == socket.AF_UNIX
        channel = None
        try:
            if not is_own:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._make_room(is_needed=False)
            channel = JsonSocket(connection, MAX_GREETING_BYTES, SEND_S)
            challenge = Challenge(self._service, channel)
        except (OSError, SocketClosed):
            (channel or connection).close()
            return
        peer = "this node" if is_own else str(address[0])
        pending = _Pending(connection, channel, challenge, door, peer, is_own, time.monotonic() + GREETING_S)
        self._pending[connection] = pending
        self._selector.register(connection, selectors.EVENT_READ, pending)

    def _hear(self, pending: _Pending) -> None:
        try:
            answer = pending.channel.receive(0.0)
            if answer is None:
                return
            free = [number for number in pending.door.nodes if number not in self.nodes]
            hello, sealed = pending.challenge.accept(answer, pending.door.token, free)
        except SocketClosed:
            self._drop(pending)
        except BadMessage as error:
            self._refuse(pending, f"it sent {error}")
        except Refused as refusal:
            self._refuse(pending, str(refusal))
        else:
            self._forget(pending)
            pending.channel.max_bytes = MAX_MESSAGE_BYTES
            self.nodes[hello.node] = self._join(sealed, hello)

    def _refuse(self, pending: _Pending, reason: str) -> None:
        self._drop(pending)
        self.num_refused += 1
        self.last_refusal = refusal = f"{printable(pending.peer)}: {reason}"
        if refusal not in self._reported and len(self._reported) < MAX_REPORTED:
            self._reported.add(refusal)
            self._say(f"{self._service.name}: refused a connection from {refusal}")

    def _make_room(self, is_needed: bool) -> None:
        """Drop one connection over the network if there are too many, or if `is_needed`."""
        strangers = [pending for pending in self._pending.values() if not pending.is_own]
        if len(strangers) >= MAX_PENDING or (is_needed and strangers):
            [(busiest, _)] = Counter(pending.peer for pending in strangers).most_common(1)
            oldest = next(pending for pending in strangers if pending.peer == busiest)
            self._refuse(oldest, "it had not greeted yet, and more came")

    def _forget(self, pending: _Pending) -> None:
        del self._pending[pending.connection]
        self._selector.unregister(pending.connection)

    def _drop(self, pending: _Pending) -> None:
        self._forget(pending)
        pending.channel.close()
