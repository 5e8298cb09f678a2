"""Records the readings of all nodes' power agents: `power/result_<k>/node_<i>.txt`, line by line as they arrive.

The agent of this node is started here as a separate process; those of other nodes connect to `listen` with a token.
The referee's thread only begins and ends a run and reads the latest watts. A lost agent leaves a log that stops there:
that voids the run's energy, and never its time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hmac
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from harness.base.clock import Clock
from harness.base.processes import python_environment
from harness.base.values import is_whole
from harness.energy.run_energy import EnergySource
from harness.errors import OutputError, TtaError, UsageError, printable
from harness.log.power_format import TOKEN_VARIABLE
from harness.metering.agent_connection import ANSWER_S, MAX_MESSAGE_BYTES, AgentConnection
from harness.metering.sources import Source

OWN_AGENT = (sys.executable, "-m", "harness.metering.agent")
ARRIVAL_S = 300.0
HELLO_S = 2.0
FIRST_READING_S = 10.0
_MAX_PATH_BYTES = 80  # a Unix socket's path has at most 107, and TMPDIR may be long


class PowerRecorder:
    """The power agents of all nodes."""

    def __init__(self, nodes: Sequence[AgentConnection], own: subprocess.Popen[bytes]) -> None:
        self._nodes = sorted(nodes, key=lambda node: node.number)
        self._own = own

    @classmethod
    def start(
        cls,
        meters: Sequence[str],
        system: Mapping[str, Any],
        num_nodes: int = 1,
        listen: str | None = None,
        sources: Sequence[Source] = (),
        is_strict: bool = True,
        own_agent: Sequence[str] = OWN_AGENT,
        say: Callable[[str], None] = lambda text: None,
    ) -> PowerRecorder:
        """Start this node's agent, wait for the others, and have all of them open their meters.

        meters: by name, on every node. sources: each on its own node. is_strict: every one of them must be readable;
        else the readable ones are used, and a node may have none. say: reports what is being waited for.

        Raises:
            UsageError: a meter cannot be read on a node, an agent is missing, or two agents claim one node.
            TtaError: an agent fails.
        """
        for source in sources:
            if source.node >= num_nodes:
                raise UsageError(
                    f"{source.name}: is for node {source.node}; the nodes are 0 to {num_nodes - 1} (--power-nodes)"
                )
        if num_nodes > 1 and listen is None:
            raise UsageError(
                "--power-nodes: also needs --power-listen, the address where the other nodes' agents connect"
            )
        if num_nodes > 1 and not os.environ.get(TOKEN_VARIABLE):
            raise UsageError(f"--power-nodes: set {TOKEN_VARIABLE}, by which the agents identify themselves")
        token = os.environ.get(TOKEN_VARIABLE) or secrets.token_hex(16)
        nodes: dict[int, AgentConnection] = {}
        with contextlib.ExitStack() as undone:  # undone on any failure
            is_short = len(os.fsencode(tempfile.gettempdir())) < _MAX_PATH_BYTES
            parent = None if is_short else "/tmp"  # noqa: S108
            with (
                tempfile.TemporaryDirectory(prefix="tta-power-", dir=parent) as folder,
                contextlib.ExitStack() as listening,
            ):
                place = str(Path(folder) / "socket")
                listeners = [listening.enter_context(_listener(place))]
                if listen is not None and num_nodes > 1:
                    listeners.append(listening.enter_context(_listener(listen)))
                    say(f"waiting for the power agents of {num_nodes - 1} other nodes at {listen}")
                own = _start(own_agent, place, token)
                undone.callback(_end, own)
                undone.callback(_close, nodes)
                _accept(listeners, token, num_nodes, nodes, own)
            recorder = cls(list(nodes.values()), own)
            for node in recorder._nodes:
                node.ask_open(
                    meters, [dataclasses.asdict(source) for source in sources if source.node == node.number], system
                )
            for node in recorder._nodes:
                node.opened()
                if is_strict and (node.reasons or not node.specs):
                    raise UsageError(f"--meter: {node.place}: {node.why_not}")
            undone.pop_all()
        return recorder

    @property
    def num_nodes(self) -> int:
        return len(self._nodes)

    @property
    def source(self) -> EnergySource:
        """ "none" if no node has a meter."""
        classes = {spec.meter_class for node in self._nodes for spec in node.specs.values()}
        return "none" if not classes else "estimated" if classes == {"E"} else "measured"

    @property
    def unmetered(self) -> list[str]:
        """The nodes without any meter, with the reasons."""
        return [f"{node.place}: {node.why_not}" for node in self._nodes if not node.specs]

    @property
    def meters(self) -> list[str]:
        """The ids of the meters, each once."""
        return sorted({name for node in self._nodes for name in node.specs})

    def begin(self, folder: Path, clock: Clock, run_id: str, period_s: float | None = None) -> None:
        """Open `folder`/node_<i>.txt for every node and start the readings; return when each meter has its first.

        Raises:
            OutputError: the folder exists already, or cannot be written.
        """
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise OutputError(f"{folder}: cannot be written: {error.strerror}") from None
        for node in self._nodes:
            node.begin(folder / f"node_{node.number}.txt", clock, run_id, period_s)
        deadline = time.monotonic() + FIRST_READING_S
        while time.monotonic() < deadline and not all(node.is_reading for node in self._nodes):
            time.sleep(0.01)

    def end(self) -> None:
        """Read every node once more, and close the logs."""
        for node in self._nodes:
            node.compare_clocks()
        for node in self._nodes:
            node.ask_stop()
        for node in self._nodes:
            node.stopped()

    def watts(self) -> float | None:
        """What all nodes draw now; None while one of them is unknown."""
        each = [node.watts() for node in self._nodes]
        return None if None in each else sum(watts for watts in each if watts is not None)

    def faults(self) -> list[str]:
        """What is wrong with the logs of the last run, one sentence per node."""
        return [f"{node.place}: {node.fault}" for node in self._nodes if node.fault is not None]

    def close(self) -> None:
        """End the agents."""
        for node in self._nodes:
            node.close()
        _end(self._own)

    def __enter__(self) -> PowerRecorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _start(command: Sequence[str], place: str, token: str) -> subprocess.Popen[bytes]:
    """Start this node's agent. It ends with its connection, however the referee ended."""
    environment = {**python_environment(), TOKEN_VARIABLE: token, "PYTHONSAFEPATH": "1"}
    return subprocess.Popen(
        [*command, place],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,  # Ctrl-C is for the referee, which has it read once more
    )


def _close(nodes: Mapping[int, AgentConnection]) -> None:
    for node in nodes.values():
        node.close()


def _end(own: subprocess.Popen[bytes]) -> None:
    try:
        own.wait(ANSWER_S)
    except subprocess.TimeoutExpired:
        own.send_signal(signal.SIGKILL)
        own.wait()


def _listener(address: str) -> socket.socket:
    if "/" in address:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(address)
    else:
        host, colon, port = address.rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port[:6]) <= 65535:
            raise UsageError(f"--power-listen {printable(address)}: must be HOST:PORT")
        try:
            listener = socket.create_server((host.strip("[]"), int(port)))
        except OSError as error:
            raise UsageError(f"--power-listen {printable(address)}: {error.strerror or printable(error)}") from None
    listener.listen()
    return listener


def _accept(
    listeners: Sequence[socket.socket],
    token: str,
    num_nodes: int,
    nodes: dict[int, AgentConnection],
    own: subprocess.Popen[bytes],
) -> None:
    """Accept agents until all nodes are there. A connection without the token is closed without a reply."""
    deadline = time.monotonic() + ARRIVAL_S
    while len(nodes) < num_nodes:
        if 0 not in nodes and own.poll() is not None:
            raise TtaError(f"the power agent of this node ended at once with status {own.returncode}")
        if time.monotonic() > deadline:
            missing = ", ".join(str(number) for number in range(num_nodes) if number not in nodes)
            raise UsageError(f"--power-nodes: no power agent came from node {missing} within {ARRIVAL_S:g} s")
        for listener in listeners:
            listener.settimeout(0.1)
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            connection.settimeout(HELLO_S)
            stream = connection.makefile("rb")
            hello = _hello(stream, token)
            if hello is None:
                stream.close()
                connection.close()
                continue
            connection.settimeout(None)
            if not 0 <= hello["node"] < num_nodes or hello["node"] in nodes:
                stream.close()
                connection.close()
                raise UsageError(
                    f"a power agent claims to be node {hello['node']}; the nodes are 0 to {num_nodes - 1}, each once"
                )
            nodes[hello["node"]] = AgentConnection(connection, stream, hello)


def _hello(stream: IO[bytes], token: str) -> dict[str, Any] | None:
    try:
        hello = json.loads(stream.readline(MAX_MESSAGE_BYTES))["hello"]
        is_known = hmac.compare_digest(str(hello["token"]).encode(), token.encode())
        node = hello["node"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return dict(hello) if is_known and is_whole(node) else None
