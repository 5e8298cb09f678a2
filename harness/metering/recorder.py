"""Records the readings of all nodes' power agents: `power/result_<k>/node_<i>.txt`, line by line as they arrive.

The agent of this node is started here as a separate process, with a token of its own; those of other nodes connect to
`listen`, and know the token that this node has in its environment.
The referee's thread only begins and ends a run and reads the latest watts. A lost agent leaves a log that stops there:
that voids the run's energy, and never its time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.base.arrivals import Arrivals, Door
from harness.base.clock import Clock
from harness.base.processes import isolated_python
from harness.energy.run_energy import EnergySource
from harness.errors import OutputError, TtaError, UsageError, printable
from harness.metering.agent_connection import ANSWER_S, POWER, AgentConnection
from harness.metering.sources import Source

ARRIVAL_S = 300.0
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
        own_agent: Sequence[str] | None = None,
        say: Callable[[str], None] = lambda text: None,
        token: bytes | None = None,
    ) -> PowerRecorder:
        """Start this node's agent, wait for the others, and have all of them open their meters.

        meters: by name, on every node. sources: each on its own node. is_strict: every one of them must be readable;
        else the readable ones are used, and a node may have none. own_agent: the command of this node's agent; by
        default it is isolated from the user's Python, as workers are. say: reports what is being waited for.
        token: of the other nodes' agents; None: the one of the environment.

        Raises:
            UsageError: a meter cannot be read on a node, an agent is missing, or there is no token to know it by.
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
        if num_nodes > 1 and token is None:
            token = POWER.token()
        own_token = secrets.token_hex(32)  # of this node's agent alone: no other can be node 0
        with contextlib.ExitStack() as undone:  # undone on any failure
            is_short = len(os.fsencode(tempfile.gettempdir())) < _MAX_PATH_BYTES
            parent = None if is_short else "/tmp"  # noqa: S108
            with (
                tempfile.TemporaryDirectory(prefix="tta-power-", dir=parent) as folder,
                contextlib.ExitStack() as listening,
            ):
                place = str(Path(folder) / "socket")
                doors = [Door(listening.enter_context(_listener(place)), own_token.encode(), range(1))]
                if listen is not None and num_nodes > 1:
                    doors.append(Door(listening.enter_context(_listener(listen)), token or b"", range(1, num_nodes)))
                    say(f"waiting for the power agents of {num_nodes - 1} other nodes at {listen}")
                arrivals = Arrivals(POWER, tuple(doors), AgentConnection, say)
                listening.callback(arrivals.close)
                own = _start(own_agent or isolated_python("harness.metering.agent"), place, own_token)
                undone.callback(_end, own)
                undone.callback(_close, arrivals.nodes)
                _gather(arrivals, num_nodes, own)
            recorder = cls(list(arrivals.nodes.values()), own)
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
    return subprocess.Popen(
        [*command, place],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, POWER.variable: token},
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


def _gather(arrivals: Arrivals[AgentConnection], num_nodes: int, own: subprocess.Popen[bytes]) -> None:
    """Wait until all nodes are there."""
    deadline = time.monotonic() + ARRIVAL_S
    while len(arrivals.nodes) < num_nodes:
        if 0 not in arrivals.nodes and own.poll() is not None:
            raise TtaError(f"the power agent of this node ended at once with status {own.returncode}")
        if time.monotonic() > deadline:
            missing = ", ".join(str(number) for number in range(num_nodes) if number not in arrivals.nodes)
            why = f"; {arrivals.num_refused} refused, the last {arrivals.last_refusal}" if arrivals.num_refused else ""
            raise UsageError(f"--power-nodes: no power agent came from node {missing} within {ARRIVAL_S:g} s{why}")
        arrivals.wait(0.1)
