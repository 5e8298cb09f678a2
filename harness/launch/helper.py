"""The helper: one process on each further node of a run, which starts that node's ranks and ends them.

A launcher starts it, or a person does:

    tta node --connect HOST:PORT --node 1

It decides nothing. The referee beside rank 0 has the clock, the log and the verdict. Between `run_start` and `run_stop`
it needs one answer from here, before `Session.start`: that the data are uncovered, if the ranks could not see them yet.

Messages, after both sides have proved that they know the token (`harness.base.greeting`). From the referee, with an
`id`, which the answer has again:

    look {data}                                    what is here: code, packages, devices, data
    reach {address, port}                          whether a connection to rank 0's node can be made
    listen {}                                      open a port, for the same in the other direction
    isolate {mode, place, data, hidden, shown}     the form of confinement that works here
    start {place, program, own}                    the ranks of one run; own: the folder of its checkpoints
    give {}                                        uncover the data
    stop {grace_s}                                 end the ranks and all that descends from them
    meter {address, node}                          start the power agent of this node
    clock {}                                       this node's clocks
    close {}
    beat {}                                        no answer

To it: {"answer": {"id", ...}}, where `refusal` is a sentence and takes the place of everything else, and every
`BEAT_S` seconds {"beat": {}}; at once, if the ranks have ended on their own, {"beat": {"fault", "reason", "is_cause"}}.
A referee that is gone, or silent for `SILENCE_S` seconds, ends the ranks, too.
"""

from __future__ import annotations

import hmac
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from harness.base.greeting import SealedSocket, serve_referee
from harness.base.json_socket import SocketClosed
from harness.base.processes import end_marked, isolated_python
from harness.errors import TtaError, UsageError, WorkerError, printable
from harness.launch import network
from harness.launch.facts import look
from harness.launch.protocol import BEAT_S, NODES, PROGRAMS, SILENCE_S
from harness.metering.agent_connection import POWER
from harness.run.isolation import Isolation, Places, choose, moved
from harness.run.launcher import TICK_S, LaunchedRanks, try_out
from harness.run.starter import MARK, Place

REACH_S = 5.0
MAX_OUTPUT_BYTES = 1 << 16  # of the ranks' output, its end
AGENT_PATIENCE_S = 60.0
_AGENT_END_S = 5.0


class Helper:
    """Serves one referee over `channel`.

    token: of the connection. interface: to the other nodes; None: the one that the connection uses.
    """

    def __init__(self, channel: SealedSocket, token: bytes, interface: str | None = None) -> None:
        self._channel = channel
        self._token = token
        self._interface = interface
        self._isolation: Isolation | None = None
        self._places: Places | None = None
        self._ranks: LaunchedRanks | None = None
        self._mark = ""
        self._output: IO[bytes] | None = None
        self._agent: subprocess.Popen[bytes] | None = None
        self._listener: socket.socket | None = None
        self._is_reported = False
        self._actions: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "look": self._look,
            "reach": self._reach,
            "listen": self._listen,
            "isolate": self._isolate,
            "start": self._start,
            "give": self._give,
            "stop": self._stop,
            "meter": self._meter,
            "clock": self._clock,
        }

    def serve(self) -> bool:
        """Serve until the referee closes, is gone, or is silent; return whether it sent any request.

        Raises:
            BadMessage, WorkerError: it sends something that is not a message, or not a request.
        """
        has_request = False
        next_beat_s = heard_s = time.monotonic()
        try:
            while True:
                request = self._channel.receive(TICK_S)
                if request is not None:
                    heard_s = time.monotonic()
                    if request.get("do") == "close":
                        return True
                    if request.get("do") != "beat":
                        has_request = True
                        self._obey(request)
                        heard_s = time.monotonic()  # what came meanwhile is still to be read
                if time.monotonic() - heard_s > SILENCE_S:
                    return has_request
                fault = self._fault()
                if fault is not None or time.monotonic() >= next_beat_s:
                    self._channel.send({"beat": fault or {}})
                    next_beat_s = time.monotonic() + BEAT_S
        except SocketClosed:
            return has_request
        finally:
            self.end()

    def end(self) -> None:
        """End everything that was started here."""
        self._stop({"grace_s": 0.0})
        if self._listener is not None:
            self._listener.close()
        if self._agent is not None:
            try:
                self._agent.wait(_AGENT_END_S)  # it ends with its referee
            except subprocess.TimeoutExpired:
                self._agent.kill()
                self._agent.wait()

    def _obey(self, request: Mapping[str, Any]) -> None:
        action = self._actions.get(str(request.get("do")))
        if action is None:
            raise WorkerError(f"a request that is unknown: {printable(request.get('do'))}")
        try:
            answer = action(dict(request))
        except TtaError as error:
            answer = {"refusal": printable(error, 2000)}
        except (KeyError, TypeError, ValueError) as error:
            raise WorkerError(f"a request {request['do']!r} that is malformed: {printable(error)}") from None
        self._channel.send({"answer": {**answer, "id": request.get("id")}})

    def _fault(self) -> dict[str, Any] | None:
        """Return why the ranks have ended on their own, once; None while they have not."""
        if self._ranks is None or self._is_reported or not self._ranks.has_ended:
            return None
        self._is_reported = True
        lost = self._ranks.lost("its ranks ended while they were working")
        return {"fault": printable(lost, 2000), "reason": lost.reason, "is_cause": lost.is_cause}

    def _look(self, request: dict[str, Any]) -> dict[str, Any]:
        own, _ = self._channel.addresses
        interface = self._interface or network.interface_of(own)
        if interface is None or not network.has_interface(interface):
            raise UsageError(f"no interface {printable(interface or 'with the address ' + own)}; see --interface")
        self._interface = interface
        data = None if request["data"] is None else Path(request["data"])
        return {"facts": {**look(data), "address": own, "interface": interface}}

    def _reach(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            socket.create_connection((request["address"], int(request["port"])), REACH_S).close()
        except OSError as error:
            return {"reason": printable(error.strerror or error)}
        return {"reason": None}

    def _listen(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._listener is not None:
            self._listener.close()
        own, _ = self._channel.addresses
        self._listener = network.listener(own, 0)
        return {"address": own, "port": self._listener.getsockname()[1]}

    def _isolate(self, request: dict[str, Any]) -> dict[str, Any]:
        hidden, shown = tuple(map(Path, request["hidden"])), tuple(map(Path, request["shown"]))
        if missing := [path for path in shown if not path.is_file()]:
            raise UsageError(f"has no {printable(missing[0], 300)}; put --out on storage that the nodes share")
        place = Place(**request["place"])
        self._places = Places(Path(request["data"]), hidden, shown)
        self._isolation = choose(request["mode"], self._places, place, try_out)
        return {"isolation": self._isolation.facts}

    def _start(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._isolation is None or self._places is None:
            raise WorkerError("a start before a form of confinement")
        self._stop({"grace_s": 0.0})
        place = replace(Place(**request["place"]), interface=self._interface)
        self._output, self._mark = tempfile.TemporaryFile(), str(place.mark)  # noqa: SIM115  (closed by `_stop`)
        output = Path(f"/proc/self/fd/{self._output.fileno()}")  # without a name, it ends with this process
        isolation = self._isolation
        if request["own"] is not None:
            own = Path(request["own"])
            if not own.is_dir():
                raise UsageError(f"has no {printable(own, 300)}; put --out on storage that the nodes share")
            isolation = moved(isolation, replace(self._places, own=own), place)
        self._ranks = LaunchedRanks(place, output, isolation, (PROGRAMS[request["program"]],))
        self._is_reported = False
        self._ranks.launch()
        self._ranks.draw_curtain()
        return {}

    def _give(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._ranks is None or self._places is None:
            raise WorkerError("a request for data before a start")
        self._ranks.give_data(self._places.data)
        return {}

    def _stop(self, request: dict[str, Any]) -> dict[str, Any]:
        left: list[str] = []
        output = ""
        if self._ranks is not None:
            self._ranks.stop(float(request["grace_s"]))
            self._ranks = None
            left = end_marked(f"{MARK}={self._mark}")
        if self._output is not None:
            self._output.seek(max(0, os.fstat(self._output.fileno()).st_size - MAX_OUTPUT_BYTES))
            output = self._output.read().decode("utf-8", "replace")
            self._output.close()
            self._output = None
        return {"left": left, "output": output}

    def _meter(self, request: dict[str, Any]) -> dict[str, Any]:
        node = str(int(request["node"]))
        self._agent = subprocess.Popen(
            isolated_python("harness.metering.agent", str(request["address"]), node, str(AGENT_PATIENCE_S)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, POWER.variable: power_token(self._token)},
        )
        return {}

    def _clock(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"time_ns": time.time_ns()}


def power_token(token: bytes) -> str:
    """Return the token of the power agents that helpers start: it follows from theirs, and no message has it."""
    return hmac.new(token, b"tta power agents", "sha256").hexdigest()


def main(address: str, node: int, token: bytes, interface: str | None = None, patience_s: float = 30.0) -> None:
    """Connect and serve until the referee is done.

    Raises:
        TtaError: the referee cannot be reached, is not this run's, rejects this helper, or requests something odd.
    """
    serve_referee(NODES, address, token, node, patience_s, lambda channel: Helper(channel, token, interface).serve())
