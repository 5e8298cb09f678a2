"""The nodes of a run: their helpers are started, compared before any clock starts, and used by run after run."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.base.arrivals import Arrivals, Door
from harness.base.processes import isolated_python
from harness.errors import TtaError, UsageError, printable
from harness.launch import facts, network
from harness.launch.connection import HelperConnection
from harness.launch.helper import power_token
from harness.launch.protocol import NODES, PROGRAMS, Handle, Launcher, Node
from harness.launch.spread import SpreadWorker
from harness.log.isolation import FULL
from harness.run.isolation import Isolation, Places
from harness.run.launcher import LaunchedWorker
from harness.run.plan import WorkerLost
from harness.run.starter import Place

LOOK_S = 600.0  # digests of the data that no one has computed before
ISOLATE_S = 300.0
REACH_S = 10.0
CLOCK_S = 5.0
NUM_ROUND_TRIPS = 5
CLOSE_S = 10.0
SWEEP_S = 10.0
_SHOWN = (
    *("host", "boot_id", "kernel", "driver", "accelerators", "num_cores", "torch", "packages", "variables"),
    *("free_bytes", "address", "interface", "ahead_s"),
)


class Cluster:
    """The helpers of all nodes but the first, which are connected. It is the `Nodes` of a run on several nodes.

    num_ranks: on each node. interface: by which node 0 reaches the others.
    """

    def __init__(
        self,
        launcher: Launcher,
        helpers: Mapping[int, HelperConnection],
        interface: str,
        token: str,
        say: Callable[[str], None],
    ) -> None:
        self._launcher = launcher
        self._helpers = [helpers[number] for number in sorted(helpers)]
        self._interface = interface
        self._token = token
        self._mark = secrets.token_hex(16)  # of all workers: only one is there at a time
        self._say = say
        self._own: Mapping[str, Any] = {}
        self._nodes: list[dict[str, Any]] = []
        self._worker: SpreadWorker | None = None
        self._place = Place()
        self._swept: set[str] = set()

    @property
    def num_nodes(self) -> int:
        return len(self._launcher.nodes)

    @property
    def address(self) -> str:
        """Where the other nodes reach this one."""
        address = self._launcher.nodes[0].address
        assert address is not None
        return address

    @property
    def lost(self) -> str | None:
        """Why no further run can be made: a helper is gone; None if all are here."""
        found = (helper.found() for helper in self._helpers if helper.is_lost)
        return next((str(fault) for fault in found if fault is not None), None)

    def check(self, num_devices: int, data: Path | None, is_metered: bool) -> None:
        """Compare the nodes, and try out the connections between them. data: the prepared data, if any are needed.

        Raises:
            UsageError: they cannot make a run together: each node, and why.
        """
        request = {"do": "look", "data": None if data is None else str(data.absolute())}
        numbers = [(helper, helper.send(request)) for helper in self._helpers]
        address = self.address
        self._own = {
            **facts.look(None if data is None else data.absolute()),
            "address": address,
            "interface": self._interface,
            "ahead_s": 0.0,
        }
        found = {f"node 0 ({printable(self._own['host'])})": self._own}
        wrong: list[str] = []
        for helper, number in numbers:
            try:
                looked = helper.answer(number, LOOK_S)["facts"]
            except UsageError as error:
                wrong.append(str(error))
                continue
            found[helper.place] = {**looked, "ahead_s": self._ahead_s(helper)}
            declared = self._launcher.nodes[helper.number].address
            if declared not in (None, looked["address"]):
                wrong.append(
                    f"{helper.place}: connects from {looked['address']} and is declared to be {declared}: a name of "
                    "another network; give the address that the others reach, or --address-of"
                )
            wrong += self._unreachable(helper)
        wrong += facts.refusals(found, num_devices, is_metered)
        if wrong:
            raise UsageError(" | ".join(wrong))
        for sentence in facts.warnings(found, num_devices):
            self._say(sentence)
        self._nodes = [
            {
                "node": node.number,
                "name": node.name,
                **{name: known[name] for name in _SHOWN},
            }
            for node, known in zip(self._launcher.nodes, found.values(), strict=True)
        ]

    def _unreachable(self, helper: HelperConnection) -> Iterator[str]:
        """Yield in which directions no connection can be made between node 0 and a helper's node."""
        port = network.free_port(self.address)
        with network.listener(self.address, port):
            reason = helper.ask({"do": "reach", "address": self.address, "port": port}, REACH_S)["reason"]
        if reason is not None:
            yield (
                f"{helper.place}: cannot connect to {self.address}:{port} on node 0, where rank 0 would listen: "
                f"{printable(reason)}; permit TCP between the nodes (firewall), or choose another --interface"
            )
        answer = helper.ask({"do": "listen"}, REACH_S)
        try:
            socket.create_connection((str(answer["address"]), int(answer["port"])), REACH_S / 2).close()
        except OSError as error:
            yield (
                f"{helper.place}: node 0 cannot connect to {answer['address']}:{answer['port']} there: "
                f"{printable(error.strerror or error)}; permit TCP between the nodes (firewall)"
            )

    def isolate(self, mode: str, places: Places, own: Isolation, num_ranks: int) -> None:
        """Choose how the ranks of the other nodes are confined.

        Raises:
            UsageError: not as on this node.
        """
        request = {
            "do": "isolate",
            "mode": mode,
            "place": dataclasses.asdict(Place(num_ranks, num_nodes=self.num_nodes)),
            "data": str(places.data.absolute()),
            "hidden": [str(path.absolute()) for path in places.hidden],
            "shown": [str(path.absolute()) for path in places.shown],
        }
        numbers = [(helper, helper.send(request)) for helper in self._helpers]
        for helper, number in numbers:
            theirs = helper.answer(number, ISOLATE_S)["isolation"]
            if differing := [name for name in FULL if theirs[name] != own.facts[name]]:
                what = "; ".join(f"{name}: {theirs[name]}, and {own.facts[name]} on node 0" for name in differing)
                raise UsageError(
                    f"{helper.place}: its ranks cannot be confined like those of node 0: {printable(what, 300)}; "
                    "tta doctor there says why; --isolation none confines none of them"
                )

    def start_agents(self, port: int) -> str:
        """Have every helper start a power agent that connects to a port of this node; return the agents' token."""
        for helper in self._helpers:
            address = network.joined(self.address, port)
            helper.ask({"do": "meter", "address": address, "node": helper.number}, REACH_S)
        return power_token(self._token.encode())

    def worker(
        self,
        num_ranks: int,
        output: Path,
        isolation: Isolation,
        stream: socket.socket | None,
        own: Path | None = None,
        program: str = "worker",
    ) -> SpreadWorker:
        """Return a worker on all nodes, which was not started yet.

        own: a folder that it may write to, as `isolation` says. program: one of `PROGRAMS`.
        """
        self._place = Place(
            num_ranks=num_ranks,
            num_nodes=self.num_nodes,
            address=self.address,
            port=network.free_port(self.address),
            interface=self._interface,
            mark=self._mark,
        )
        here = LaunchedWorker(self._place, output, isolation, stream, (PROGRAMS[program],))
        host = str(self._own["host"])
        self._worker = SpreadWorker(here, self._helpers, self._place, host, output, program, own)
        return self._worker

    def facts(self) -> Mapping[str, Any]:
        """Return what the log says of the nodes."""
        place = self._place
        return {
            "launcher": dict(self._launcher.facts()),
            "ranks_per_node": place.num_ranks,
            "address": place.address,
            "port": place.port,
            "variables": sorted(place.variables),
            "nodes": self._nodes,
        }

    def clean(self) -> Mapping[str, Any]:
        """End what is left of the last run on all nodes; return what was found there, and how far the clocks are
        apart now."""
        assert self._worker is not None
        self._worker.stop(0.0)
        for helper in self._helpers:
            if helper.is_lost:
                self._sweep(helper)
        ahead_s = {str(helper.number): self._ahead_s(helper) for helper in self._helpers}
        return {"left": self._worker.left, "ahead_s": {"0": 0.0, **ahead_s}}

    def _sweep(self, helper: HelperConnection) -> None:
        """Reach a node whose helper is gone once more, and end what is left of the last run there."""
        node = self._launcher.nodes[helper.number]
        with contextlib.suppress(TtaError):
            command = isolated_python("harness.cli", "node", "--sweep", self._mark)
            self._launcher.start(node, command, self._token).close(SWEEP_S)

    def _ahead_s(self, helper: HelperConnection) -> float | None:
        """Return how far the clock of a helper's node is ahead of this one's, by the fastest of some round trips."""
        best: tuple[int, int] | None = None
        for _ in range(NUM_ROUND_TRIPS):
            asked_ns = time.time_ns()
            try:
                theirs_ns = int(helper.ask({"do": "clock"}, CLOCK_S)["time_ns"])
            except (TtaError, WorkerLost):
                return None
            heard_ns = time.time_ns()
            best = min(best or (1 << 62, 0), (heard_ns - asked_ns, theirs_ns - (asked_ns + heard_ns) // 2))
        assert best is not None
        return round(best[1] / 1e9, 4)

    def close(self) -> None:
        """End the helpers."""
        if self._worker is not None:
            self._worker.stop(0.0)
        for helper in self._helpers:
            helper.close()


@contextlib.contextmanager
def opened(
    launcher: Launcher,
    say: Callable[[str], None],
    token: str | None = None,
    interface: str | None = None,
    port: int | None = None,
) -> Iterator[Cluster]:
    """Start the helpers of all nodes but the first and wait until they are connected.

    token: that all know; None: a new one. interface: of the nodes' network, on every node; None: the one with the
    address. port: where the helpers connect; None: a free one.

    Raises:
        UsageError: a node cannot be used, or does not come: which, and why.
    """
    nodes = launcher.nodes
    address = nodes[0].address
    assert address is not None
    token = token or secrets.token_hex(32)
    port = port or network.free_port(address)
    own = interface or network.interface_of(address)
    if own is None or not network.has_interface(own):
        what = f"--interface {printable(interface)}" if interface else address
        raise UsageError(f"node 0 ({printable(nodes[0].name)}): {what}: this machine has no such interface")
    with contextlib.ExitStack() as undone:
        handles: dict[int, Handle] = {}
        undone.callback(_give_up, handles)
        try:
            listener = network.listener(address, port)
        except OSError as error:
            raise UsageError(
                f"node 0 ({printable(nodes[0].name)}): port {port} of {address}: {error.strerror}; see --port"
            ) from None
        with listener:
            arrivals = Arrivals(NODES, (Door(listener, token.encode(), range(1, len(nodes))),), HelperConnection, say)
            undone.callback(_close, arrivals.nodes)
            try:
                for node in nodes[1:]:
                    words = ["node", "--connect", network.joined(address, port), "--node", str(node.number)]
                    words += [] if interface is None else ["--interface", interface]
                    handles[node.number] = launcher.start(node, isolated_python("harness.cli", *words), token)
                _gather(arrivals, nodes, handles, launcher.arrival_s)
            finally:
                arrivals.close()
        yield Cluster(launcher, dict(arrivals.nodes), own, token, say)


def _gather(
    arrivals: Arrivals[HelperConnection], nodes: Sequence[Node], handles: Mapping[int, Handle], arrival_s: float
) -> None:
    """Wait until the helpers of all nodes are here."""
    deadline_s = time.monotonic() + arrival_s
    while missing := [node for node in nodes[1:] if node.number not in arrivals.nodes]:
        gone = {node.number: why for node in missing if (why := handles[node.number].ended()) is not None}
        if not gone and time.monotonic() < deadline_s:
            arrivals.wait(0.1)
            continue
        refused = f"; {arrivals.num_refused} refused, the last {arrivals.last_refusal}" if arrivals.num_refused else ""
        sentences = []
        for node in missing:
            why = gone.get(node.number)
            if why is None and gone:
                continue  # the others are named
            why = f"its helper did not come within {arrival_s:g} s{refused}" if why is None else f"{why}{refused}"
            sentences.append(f"node {node.number} ({printable(node.name)}): {why}{_remedy(why)}")
        raise UsageError(" | ".join(sentences))


_REMEDIES = {
    "nothing can be reached there": "; node 0 must be reachable by TCP from it: check the address and the firewall",
    "another helper is that node already": "; every helper needs a number of its own, from a variable that is read on "
    "the node",
    "different versions": "",
    "container-image": "; this scheduler has no pyxis: leave the container's options out, or install it",
    "Permission denied": "; ssh must work without a password: ssh-copy-id",
    "No such file": "; tta and its interpreter must be at the same path on every node",
    "not found": "; tta and its interpreter must be at the same path on every node",
}


def _remedy(why: str) -> str:
    return next((remedy for sign, remedy in _REMEDIES.items() if sign in why), "")


def _close(helpers: Mapping[int, HelperConnection]) -> None:
    for helper in helpers.values():
        helper.close()


def _give_up(handles: Mapping[int, Handle]) -> None:
    for handle in handles.values():
        handle.close(CLOSE_S)
