"""How a power agent and its referee recognise each other, and the messages that they exchange afterwards.

Both have the token and neither sends it: each proves that it knows it, by an HMAC-SHA256 over its role and everything
said so far, which has a fresh nonce of either side. A proof is therefore good for one connection and one role. One JSON
object a line:

    referee   {"tta_power": VERSION, "nonce"}
    agent     {"tta_power": VERSION, "nonce", "node", "host", "machine", "proof"}
    referee   {"proof"}, or {"refused": a key of REFUSALS}

From then on every message is {"mac", "text"}. The MAC, under a key of this connection and direction, covers the
message's position and text, so that none can be altered, added, repeated or left out in between. Nothing is encrypted:
who can listen on the network reads the readings. Who can talk to either side can try out guesses of the token on what
was said, which is why it must be one that cannot be guessed.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from harness.base.json_socket import BadMessage, JsonSocket, SocketClosed, parsed
from harness.base.values import is_whole, short_text
from harness.errors import TtaError, UsageError, printable
from harness.log.power_format import TOKEN_VARIABLE

VERSION = 2  # 1 sent the token in clear
GREETING_S = 10.0
MAX_GREETING_BYTES = 1 << 12
MIN_TOKEN = 16  # characters
REFUSALS = {
    "version": "the two sides are different versions of tta; install the same one on both nodes",
    "greeting": "the greeting is malformed",
    "token": f"its {TOKEN_VARIABLE} is another",
    "node": "the run has no such --node, or another agent is that node already",
}

Role = Literal["agent", "referee"]


class Refused(TtaError):  # noqa: N818  (an event, not necessarily an error)
    """A side is not accepted: why, as a clause."""


def token_from_environment() -> bytes:
    """Return the token that all agents and the referee of a run share.

    Raises:
        UsageError: there is none, or it is so short that it could be guessed.
    """
    token = os.fsencode(os.environ.get(TOKEN_VARIABLE, ""))
    if not token:
        raise UsageError(
            f"the environment has no {TOKEN_VARIABLE}; it must have the same value for `tta run` and for every agent"
        )
    if len(token) < MIN_TOKEN:
        raise UsageError(
            f"{TOKEN_VARIABLE} has {len(token)} characters; it must have at least {MIN_TOKEN}, which no one can guess: "
            "openssl rand -hex 32"
        )
    return token


@dataclass(frozen=True, slots=True)
class Hello:
    """Who an agent says it is. machine: a digest of its machine's id; None if that is not known."""

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

    def end(self) -> None:
        """End the connection without closing it; see `JsonSocket.end`."""
        self._channel.end()

    def close(self) -> None:
        self._channel.close()


def greet(channel: JsonSocket, token: bytes, hello: Hello) -> SealedSocket:
    """Be accepted by the referee at the other end, and make sure that it is one.

    Raises:
        Refused: it is not one, or does not accept this agent. SocketClosed: it closed the connection.
        BadMessage: what it says is not a message.
    """
    deadline_s = time.monotonic() + GREETING_S
    opening = _within(channel, deadline_s)
    if not is_whole(opening.get("tta_power")):
        raise Refused("what listens there is not a referee of tta")
    if opening["tta_power"] != VERSION:
        raise Refused(REFUSALS["version"])
    nonce = secrets.token_hex(16)
    said = (opening.get("nonce"), nonce, hello.node, hello.host, hello.machine)
    channel.send(
        {
            "tta_power": VERSION,
            "nonce": nonce,
            "node": hello.node,
            "host": hello.host,
            "machine": hello.machine,
            "proof": _proof(token, "agent", *said),
        }
    )
    answer = _within(channel, deadline_s)
    if "refused" in answer:
        raise Refused(f"the referee refuses this agent: {REFUSALS.get(str(answer['refused']), 'it does not say why')}")
    if not _is(answer.get("proof"), _proof(token, "referee", *said)):
        raise Refused(f"what listens there is not this run's referee: it does not know the {TOKEN_VARIABLE}")
    return SealedSocket(channel, _key(token, "agent", *said), _key(token, "referee", *said))


class Challenge:
    """What the referee demands of one connection before it is an agent's."""

    def __init__(self, channel: JsonSocket) -> None:
        """Raises:
        SocketClosed: the other side is gone.
        """
        self._channel = channel
        self._nonce = secrets.token_hex(16)
        channel.send({"tta_power": VERSION, "nonce": self._nonce})

    def accept(self, answer: Mapping[str, Any], token: bytes, nodes: Collection[int]) -> tuple[Hello, SealedSocket]:
        """Accept the agent that gave this answer. nodes: the numbers of nodes that have no agent yet.

        Raises:
            Refused: it is not accepted, and has been told so. SocketClosed: it is gone.
        """
        node, nonce = answer.get("node"), answer.get("nonce")
        host, machine = answer.get("host"), answer.get("machine")
        said = (self._nonce, nonce, node, host, machine)
        refusal = None
        if answer.get("tta_power") != VERSION:
            refusal = "version"
        elif not (
            is_whole(node)
            and short_text(nonce) is not None
            and short_text(host) is not None
            and (machine is None or short_text(machine) is not None)
        ):
            refusal = "greeting"
        elif not _is(answer.get("proof"), _proof(token, "agent", *said)):
            refusal = "token"
        elif node not in nodes:
            refusal = "node"
        if refusal is not None:
            self._channel.send({"refused": refusal})
            claim = f" (it claims to be node {printable(node, 20)})" if refusal == "node" else ""
            raise Refused(f"{REFUSALS[refusal]}{claim}")
        self._channel.send({"proof": _proof(token, "referee", *said)})
        assert isinstance(node, int)
        assert isinstance(host, str)
        sealed = SealedSocket(self._channel, _key(token, "referee", *said), _key(token, "agent", *said))
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


def _proof(token: bytes, role: Role, *said: object) -> str:
    return _mac(token, "tta power: proof", VERSION, role, *said)


def _key(token: bytes, role: Role, *said: object) -> bytes:
    """The key of the messages that `role` sends."""
    return bytes.fromhex(_mac(token, "tta power: key", VERSION, role, *said))
