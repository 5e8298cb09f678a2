"""The arrival of the power agents: any number of connections greet at a time, and none holds up another."""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from harness.base.json_socket import BadMessage, JsonSocket, SocketClosed
from harness.errors import printable
from harness.metering.agent_connection import MAX_MESSAGE_BYTES, SEND_S, AgentConnection
from harness.metering.greeting import GREETING_S, MAX_GREETING_BYTES, Challenge, Refused

MAX_PENDING = 32
MAX_REPORTED = 5  # refusals; more are counted


@dataclass(frozen=True, slots=True)
class Door:
    """Where agents connect, with what token, and which nodes' agents they can be."""

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


class Arrivals:
    """Accepts agents at `doors`, one for each node. nodes: those that are here. say: reports who was refused.

    A connection has `GREETING_S` in all. At most `MAX_PENDING` greet at a time: one more, and the oldest of the address
    that has the most of them is dropped, since an honest agent needs a round trip.
    """

    def __init__(self, doors: tuple[Door, ...], say: Callable[[str], None]) -> None:
        self.nodes: dict[int, AgentConnection] = {}
        self.num_refused = 0
        self.last_refusal = ""
        self._say = say
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
            self._drop(pending)
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
            challenge = Challenge(channel)
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
        except (SocketClosed, BadMessage):
            self._drop(pending)
        except Refused as refusal:
            self._drop(pending)
            self._report(f"{printable(pending.peer)}: {refusal}")
        else:
            self._forget(pending)
            pending.channel.max_bytes = MAX_MESSAGE_BYTES
            self.nodes[hello.node] = AgentConnection(sealed, hello)

    def _report(self, refusal: str) -> None:
        self.num_refused += 1
        self.last_refusal = refusal
        if self.num_refused <= MAX_REPORTED:
            self._say(f"power: refused a connection from {refusal}")

    def _make_room(self, is_needed: bool) -> None:
        """Drop one connection over the network if there are too many, or if `is_needed`."""
        strangers = [pending for pending in self._pending.values() if not pending.is_own]
        if len(strangers) >= MAX_PENDING or (is_needed and strangers):
            [(busiest, _)] = Counter(pending.peer for pending in strangers).most_common(1)
            self._drop(next(pending for pending in strangers if pending.peer == busiest))

    def _forget(self, pending: _Pending) -> None:
        del self._pending[pending.connection]
        self._selector.unregister(pending.connection)

    def _drop(self, pending: _Pending) -> None:
        self._forget(pending)
        pending.channel.close()
