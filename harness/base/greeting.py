"""How a process on another node and the referee recognise each other, and the messages that they exchange afterwards.

Power agents send readings and helpers start ranks; both come to the referee like this. Both sides have the token of
the service and neither sends it: each proves that it knows it, by an HMAC-SHA256 over the service, its role and
everything said so far, which has a fresh nonce of either side. A proof is therefore good for one connection and one
role. One JSON object a line:

    referee   {"tta_<service>": version, "nonce"}
    agent     {"tta_<service>": version, "nonce", "node", "host", "machine", "proof"}
    referee   {"proof"}, or {"refused": a key of REFUSALS}

From then on every message is {"mac", "text"}. The MAC, under a key of this connection and direction, covers the
message's position and text, so that none can be altered, added, repeated or left out in between. Nothing is encrypted:
who can listen on the network reads the messages. Who can talk to either side can try out guesses of the token on what
was said, which is why it must be one that cannot be guessed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import platform
import secrets
import socket
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.base.json_socket import BadMessage, JsonSocket, SocketClosed, parsed
from harness.base.processes import refuse_tracing
from harness.base.values import is_whole, short_text
from harness.errors import TtaError, UsageError, WorkerError, printable

GREETING_S = 10.0
MAX_GREETING_BYTES = 1 << 12
MIN_TOKEN = 16  # characters
SEND_S = 30.0  # a referee that reads nothing for as long is gone
RETRY_S = 0.25


@dataclass(frozen=True, slots=True)
class Service:
    """What a process comes to the referee for.

    name: a word. version: of its messages. variable: of the environment, with the token. client: what the process is
    called in messages, in singular.
    """

    name: str
    version: int
    variable: str
    client: str

    @property
    def key(self) -> str:
        """The name of the version in a greeting."""
        return f"tta_{self.name}"

    @property
    def refusals(self) -> dict[str, str]:
        """Why a client is refused, by the word that it is sent."""
        return {
            "version": "the two sides are different versions of tta; install the same one on both nodes",
            "greeting": "the greeting is malformed",
            "token": f"its {self.variable} is another",
            "node": f"the run has no such node, or another {self.client} is that node already",
        }

    def token(self) -> bytes:
        """Return the token, which all clients and the referee have in their environment.

        Raises:
            UsageError: there is none, or it is so short that it could be guessed.
        """
        token = os.fsencode(os.environ.get(self.variable, ""))
        if not token:
            raise UsageError(
                f"the environment has no {self.variable}; it must have the same value for `tta run` and for every "
                f"{self.client}"
            )
        if len(token) < MIN_TOKEN:
            raise UsageError(
                f"{self.variable} has {len(token)} characters; it must have at least {MIN_TOKEN}, which no one can "
                "guess: openssl rand -hex 32"
            )
        return token


Role = Literal["client", "referee"]


class Refused(TtaError):  # noqa: N818  (an event, not necessarily an error)
    """A side is not accepted: why, as a clause."""


@dataclass(frozen=True, slots=True)
class Hello:
    """Who a client says it is. machine: a digest of its machine's id; None if that is not known."""

    node: int
    host: str
    machine: str | None


class SealedSocket:
    """Messages with MACs, in both directions. One thread may send while another receives.

    num_bytes: the length of all messages received.
    """

    def __init__(self, channel: JsonSocket, own_key: bytes, other_key: bytes) -> None:
        self.num_bytes = 0
        self._channel = channel
        self._own_key, self._other_key = own_key, other_key
        self._num_sent = self._num_received = 0

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message.

        Raises:
            SocketClosed: the other side is gone, or does not read.
        """
        text = json.dumps(message)
        self._channel.send({"mac": _mac(self._own_key, self._num_sent, text), "text": text})
        self._num_sent += 1

    def receive(self, timeout_s: float | None) -> dict[str, Any] | None:
        """Return the next message, or None if none arrives within `timeout_s` seconds (None: wait for ever).

        Raises:
            SocketClosed: the other side closed the connection. BadMessage: it is not the other side's next message.
        """
        sealed = self._channel.receive(timeout_s)
        if sealed is None:
            return None
        text = sealed.get("text")
        if not isinstance(text, str) or not _is(sealed.get("mac"), _mac(self._other_key, self._num_received, text)):
            raise BadMessage("a message that is forged or out of order")
        self._num_received += 1
        self.num_bytes += len(text)
        return parsed(text)

    @property
    def addresses(self) -> tuple[str, str]:
        """See `JsonSocket.addresses`."""
        return self._channel.addresses

    def end(self) -> None:
        """End the connection without closing it; see `JsonSocket.end`."""
        self._channel.end()

    def close(self) -> None:
        self._channel.close()


def greet(service: Service, channel: JsonSocket, token: bytes, hello: Hello) -> SealedSocket:
    """Be accepted by the referee at the other end, and make sure that it is one.

    Raises:
        Refused: it is not one, or does not accept this client. SocketClosed: it closed the connection.
        BadMessage: what it says is not a message.
    """
    deadline_s = time.monotonic() + GREETING_S
    opening = _within(channel, deadline_s)
    if not is_whole(opening.get(service.key)):
        raise Refused("what listens there is not a referee of tta")
    if opening[service.key] != service.version:
        raise Refused(service.refusals["version"])
    nonce = secrets.token_hex(16)
    said = (opening.get("nonce"), nonce, hello.node, hello.host, hello.machine)
    channel.send(
        {
            service.key: service.version,
            "nonce": nonce,
            "node": hello.node,
            "host": hello.host,
            "machine": hello.machine,
            "proof": _proof(service, token, "client", *said),
        }
    )
    answer = _within(channel, deadline_s)
    if "refused" in answer:
        why = service.refusals.get(str(answer["refused"]), "it does not say why")
        raise Refused(f"the referee refuses this {service.client}: {why}")
    if not _is(answer.get("proof"), _proof(service, token, "referee", *said)):
        raise Refused(f"what listens there is not this run's referee: it does not know the {service.variable}")
    return SealedSocket(channel, _key(service, token, "client", *said), _key(service, token, "referee", *said))


def connect(address: str, deadline_s: float) -> JsonSocket:
    """Connect to the referee at `HOST:PORT`, or at the path of a Unix socket, once it listens.

    Raises:
        UsageError: the address is neither. TtaError: nothing listens there until `deadline_s` of `time.monotonic`.
    """
    while True:
        try:
            return JsonSocket(_connection(address, max(1.0, deadline_s - time.monotonic())), send_s=SEND_S)
        except OSError as error:
            if time.monotonic() >= deadline_s:
                shown = printable(address)
                raise TtaError(f"--connect {shown}: nothing can be reached there: {error.strerror or error}") from None
        time.sleep(RETRY_S)


def _connection(address: str, timeout_s: float) -> socket.socket:
    if "/" in address:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(address)
        return connection
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port[:6]) <= 65535:
        raise UsageError(f"--connect {printable(address)!r}: must be HOST:PORT")
    connection = socket.create_connection((host.strip("[]"), int(port)), timeout_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def greeted(service: Service, address: str, token: bytes, hello: Hello, deadline_s: float) -> SealedSocket:
    """Connect until a referee accepts this client. One that has too many connections closes some, so it is asked again.

    Raises:
        Refused, BadMessage: it is not the referee, or refuses this client. TtaError: see `connect`, or it closes every
            connection before the greeting is over.
    """
    while True:
        channel = connect(address, deadline_s)
        try:
            return greet(service, channel, token, hello)
        except SocketClosed as closed:
            channel.close()
            if time.monotonic() >= deadline_s:
                raise TtaError(f"--connect {printable(address)}: no greeting came about: {closed}") from None
        except (Refused, BadMessage):
            channel.close()
            raise
        time.sleep(RETRY_S)


def machine_id(root: Path = Path("/")) -> str | None:
    """A digest of systemd's id of this machine (the id itself is confidential, machine-id(5)); two clients with the
    same digest are on one machine.
    """
    try:
        name = (root / "etc/machine-id").read_bytes().strip()
    except OSError:
        return None
    return hashlib.sha256(b"tta " + name).hexdigest()[:32] if name else None


def serve_referee(
    service: Service,
    address: str,
    token: bytes,
    node: int,
    patience_s: float,
    serve: Callable[[SealedSocket], bool],
) -> None:
    """Connect as a client of the service, and serve until the referee is done. For a process of its own.

    serve: returns whether the referee requested anything.

    Raises:
        TtaError: the referee cannot be reached, is not this run's, rejects this client, or requests something odd.
    """
    refuse_tracing()  # the environment has the token, and may have passwords
    shown = printable(address)
    hello = Hello(node, short_text(platform.node()) or "unknown", machine_id())
    try:
        sealed = greeted(service, address, token, hello, time.monotonic() + patience_s)
    except Refused as refusal:
        raise TtaError(f"--connect {shown}: {refusal}") from None
    except BadMessage as error:
        raise TtaError(f"--connect {shown}: what listens there sent {error}") from None
    try:
        if not serve(sealed):
            raise TtaError(f"--connect {shown}: the referee closed without a request: its run did not begin")
    except (BadMessage, WorkerError) as error:
        raise TtaError(f"--connect {shown}: the referee sent {error}") from None
    finally:
        sealed.close()


class Challenge:
    """What the referee demands of one connection before it is a client's."""

    def __init__(self, service: Service, channel: JsonSocket) -> None:
        """Raises:
        SocketClosed: the other side is gone.
        """
        self._service = service
        self._channel = channel
        self._nonce = secrets.token_hex(16)
        channel.send({service.key: service.version, "nonce": self._nonce})

    def accept(self, answer: Mapping[str, Any], token: bytes, nodes: Collection[int]) -> tuple[Hello, SealedSocket]:
        """Accept the client that gave this answer. nodes: the numbers of nodes that have none yet.

        Raises:
            Refused: it is not accepted, and has been told so. SocketClosed: it is gone.
        """
        service = self._service
        node, nonce = answer.get("node"), answer.get("nonce")
        host, machine = answer.get("host"), answer.get("machine")
        said = (self._nonce, nonce, node, host, machine)
        refusal = None
        if answer.get(service.key) != service.version:
            refusal = "version"
        elif not (
            is_whole(node)
            and short_text(nonce) is not None
            and short_text(host) is not None
            and (machine is None or short_text(machine) is not None)
        ):
            refusal = "greeting"
        elif not _is(answer.get("proof"), _proof(service, token, "client", *said)):
            refusal = "token"
        elif node not in nodes:
            refusal = "node"
        if refusal is not None:
            self._channel.send({"refused": refusal})
            claim = f" (it claims to be node {printable(node, 20)})" if refusal == "node" else ""
            raise Refused(f"{service.refusals[refusal]}{claim}")
        self._channel.send({"proof": _proof(service, token, "referee", *said)})
        assert isinstance(node, int)
        assert isinstance(host, str)
        sealed = SealedSocket(
            self._channel, _key(service, token, "referee", *said), _key(service, token, "client", *said)
        )
        return Hello(node, host, machine), sealed


def _within(channel: JsonSocket, deadline_s: float) -> dict[str, Any]:
    answer = channel.receive(max(0.0, deadline_s - time.monotonic()))
    if answer is None:
        raise SocketClosed(f"no greeting within {GREETING_S:g} s")
    return answer


def _mac(key: bytes, *parts: object) -> str:
    """The MAC of a list, as JSON: where one part ends and the next begins is part of it."""
    return hmac.new(key, json.dumps(parts).encode(), "sha256").hexdigest()


def _is(claimed: object, mac: str) -> bool:
    return isinstance(claimed, str) and hmac.compare_digest(claimed.encode(errors="replace"), mac.encode())


def _proof(service: Service, token: bytes, role: Role, *said: object) -> str:
    return _mac(token, f"{service.key}: proof", service.version, role, *said)


def _key(service: Service, token: bytes, role: Role, *said: object) -> bytes:
    """The key of the messages that `role` sends."""
    return bytes.fromhex(_mac(token, f"{service.key}: key", service.version, role, *said))
