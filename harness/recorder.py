"""Writes down what the nodes' power agents say during a run: `power/result_<k>/node_<i>.txt`, line by line as it comes.

The agent of this node is started here as a process of its own; those of other nodes connect to `listen` with a token.
The referee's thread only begins and ends a run and asks for the latest watts. An agent that is lost leaves a log that
stops there: that voids the run's energy, and never its time.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from harness.clock import MonotonicClock
from harness.errors import OutputError, TtaError, UsageError, printable
from harness.power import TOKEN_VARIABLE
from harness.powernode import ANSWER_S, MAX_MESSAGE_BYTES, PowerNode

OWN_AGENT = (sys.executable, "-m", "harness.agent")
ARRIVAL_S = 60.0


class PowerRecorder:
    """All nodes of a run."""

    def __init__(
        self, nodes: Sequence[PowerNode], own: subprocess.Popen[bytes], folder: tempfile.TemporaryDirectory[str]
    ) -> None:
        self._nodes = sorted(nodes, key=lambda node: node.number)
        self._own = own
        self._folder = folder

    @classmethod
    def start(
        cls,
        meters: Sequence[str],
        system: Mapping[str, Any],
        num_nodes: int = 1,
        listen: str | None = None,
        own_agent: Sequence[str] = OWN_AGENT,
    ) -> PowerRecorder:
        """Starts this node's agent, waits for the others, and has all open their `meters`.

        Raises:
            UsageError: a meter cannot be read on a node, an agent is missing, or two say they are the same node.
        """
        token = os.environ.get(TOKEN_VARIABLE) or secrets.token_hex(16)
        folder = tempfile.TemporaryDirectory(prefix="tta-power-")
        place = str(Path(folder.name) / "socket")
        listeners = [_listener(place)]
        if num_nodes > 1:
            if listen is None:
                raise UsageError(
                    "--power-nodes: give the address where the other nodes' agents connect: --power-listen"
                )
            listeners.append(_listener(listen))
        own = subprocess.Popen([*own_agent, place], stdin=subprocess.DEVNULL, env={**os.environ, TOKEN_VARIABLE: token})
        nodes: dict[int, PowerNode] = {}
        try:
            _accept(listeners, token, num_nodes, nodes)
            recorder = cls(list(nodes.values()), own, folder)
            for node in recorder._nodes:
                node.open(meters, system)
                if not node.specs:
                    why = "; ".join(f"{name}: {reason}" for name, reason in node.reasons.items())
                    raise UsageError(f"--meter {','.join(meters)}: node {node.number} ({node.host}): {why}")
        except TtaError:
            for node in nodes.values():
                node.close()
            own.kill()
            own.wait()
            folder.cleanup()
            raise
        finally:
            for listener in listeners:
                listener.close()
        return recorder

    @property
    def num_nodes(self) -> int:
        return len(self._nodes)

    @property
    def reasons(self) -> dict[str, str]:
        """What was asked for and is not there, by node and meter, for a person."""
        return {f"node {n.number}: {name}": reason for n in self._nodes for name, reason in n.reasons.items()}

    def begin(self, folder: Path, clock: MonotonicClock, run_id: str, period_s: float | None = None) -> None:
        """Opens `folder`/node_<i>.txt of every node and starts the readings; returns when each has its first.

        Raises:
            OutputError: the folder is there already, or cannot be written.
        """
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise OutputError(f"{folder}: cannot be written: {error.strerror}") from None
        for node in self._nodes:
            node.begin(folder / f"node_{node.number}.txt", clock, run_id, period_s)

    def end(self) -> None:
        """A last reading of every node, after which the logs are closed."""
        for node in self._nodes:
            node.end()

    def watts(self) -> float | None:
        """What all nodes draw now; None while one of them is not known."""
        each = [node.watts() for node in self._nodes]
        return None if None in each else sum(watts for watts in each if watts is not None)

    def lost(self) -> list[str]:
        """The nodes whose agent is gone."""
        return [f"node {node.number} ({node.host})" for node in self._nodes if node.is_lost]

    def close(self) -> None:
        """Ends the agents."""
        for node in self._nodes:
            node.close()
        try:
            self._own.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            self._own.kill()
            self._own.wait()
        self._folder.cleanup()


def _listener(address: str) -> socket.socket:
    if "/" in address:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(address)
    else:
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65535:
            raise UsageError(f"--power-listen {printable(address)}: must be HOST:PORT")
        try:
            listener = socket.create_server((host.strip("[]"), int(port)))
        except OSError as error:
            raise UsageError(f"--power-listen {printable(address)}: {error.strerror}") from None
    listener.listen()
    return listener


def _accept(listeners: Sequence[socket.socket], token: str, num_nodes: int, nodes: dict[int, PowerNode]) -> None:
    """Takes agents in until all nodes are there. Who does not know the token is sent away without a word."""
    deadline = time.monotonic() + ARRIVAL_S
    while len(nodes) < num_nodes:
        if time.monotonic() > deadline:
            missing = sorted(set(range(num_nodes)) - set(nodes))
            raise UsageError(f"no power agent came from node {', '.join(map(str, missing))} within {ARRIVAL_S:g} s")
        for listener in listeners:
            listener.settimeout(0.1)
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            connection.settimeout(ANSWER_S)
            stream = connection.makefile("rb")
            hello = _hello(stream, token)
            if hello is None:
                connection.close()
                continue
            connection.settimeout(None)
            if not 0 <= hello["node"] < num_nodes or hello["node"] in nodes:
                connection.close()
                raise UsageError(
                    f"a power agent says it is node {hello['node']}; the nodes are 0 to {num_nodes - 1}, each once"
                )
            nodes[hello["node"]] = PowerNode(connection, stream, hello)


def _hello(stream: IO[bytes], token: str) -> dict[str, Any] | None:
    try:
        hello = json.loads(stream.readline(MAX_MESSAGE_BYTES))["hello"]
        is_known = hmac.compare_digest(str(hello["token"]), token)
        node = hello["node"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return dict(hello) if is_known and isinstance(node, int) and not isinstance(node, bool) else None
