"""Starts the ranks of a worker, reports the first that goes wrong, and leaves no process behind.

The launcher starts it as `python -m harness.run.starter TASK`. It ends all descendants of the ranks when one of them
goes wrong, when all have ended, and when the launcher is gone, which it notices by the end of their connection.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from harness.base.processes import adopt_orphans, die_with_parent, end_children
from harness.run.confinement import Confinement

MARK = "TTA_MARK"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the ranks of a node are in the world.

    num_ranks: on this node. first_rank: the first of them. num_nodes: with as many ranks each. address, port: where
    rank 0 listens for the others; None: a free port. interface: by which this node reaches the others; None: torch's
    choice. mark: a value that all that descends from the ranks has in its environment, so that it can be found.
    """

    num_ranks: int = 1
    first_rank: int = 0
    num_nodes: int = 1
    address: str = "127.0.0.1"
    port: int | None = None
    interface: str | None = None
    mark: str | None = None

    @property
    def world_size(self) -> int:
        return self.num_ranks * self.num_nodes

    @property
    def variables(self) -> dict[str, str]:
        """The variables of the environment that all ranks of the node share."""
        interface = {f"{name}_SOCKET_IFNAME": self.interface for name in ("GLOO", "NCCL")}
        found = {**interface, MARK: self.mark}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Task:
    """What to start.

    command: that of a rank. place: the fields of a `Place`. leash, control, stream: descriptors of inherited sockets,
    the latter two for rank 0. confinement: the fields of a `Confinement`.
    """

    command: list[str]
    place: dict[str, Any]
    leash: int
    control: int | None
    stream: int | None
    confinement: dict[str, Any]

    def as_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _rank_environment(local: int, place: Place, port: int) -> dict[str, str]:
    """Return the environment of a rank; torch and accelerate take a process without these for the only one.

    local: its number on this node.
    """
    if place.world_size == 1:
        return dict(os.environ)
    numbers = {
        "RANK": place.first_rank + local,
        "LOCAL_RANK": local,
        "WORLD_SIZE": place.world_size,
        "LOCAL_WORLD_SIZE": place.num_ranks,
        "MASTER_PORT": port,
    }
    return {**os.environ, **{name: str(value) for name, value in numbers.items()}, "MASTER_ADDR": place.address}


def _enter(confinement: Confinement, ruleset: int | None, starter: int) -> None:
    """Between fork and exec of a rank: be confined, and end with the starter, even if that has ended already."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # by which a rank ends the processes that it has started
    confinement.enter(ruleset)
    die_with_parent()  # last, because a change of user would undo it
    if os.getppid() != starter:
        os._exit(1)


def _start(task: Task) -> list[subprocess.Popen[bytes]]:
    confinement = Confinement(**task.confinement)
    ruleset = confinement.prepare(os.environ["HOME"])
    place = Place(**task.place)
    port = place.port or _free_port()
    ranks = []
    for local in range(place.num_ranks):
        inherited = {"--control": task.control, "--stream": task.stream} if local == 0 else {}
        fds = {name: fd for name, fd in inherited.items() if fd is not None}
        ranks.append(
            subprocess.Popen(
                [*task.command, *(f"{name}={fd}" for name, fd in fds.items())],
                env=_rank_environment(local, place, port),
                pass_fds=tuple(fds.values()),
                preexec_fn=functools.partial(_enter, confinement, ruleset, os.getpid()),
            )
        )
    for fd in (task.control, task.stream):
        if fd is not None:
            os.close(fd)  # so that the other side notices the end of rank 0
    return ranks


def _watch(leash: socket.socket, ranks: list[subprocess.Popen[bytes]], first_rank: int) -> dict[str, object] | None:
    """Wait until all ranks have ended, or the launcher is gone. Return which rank went wrong first, and how."""
    with selectors.DefaultSelector() as selector:
        selector.register(leash, selectors.EVENT_READ)
        pidfds = {os.pidfd_open(process.pid): number for number, process in enumerate(ranks)}
        for pidfd in pidfds:
            selector.register(pidfd, selectors.EVENT_READ)
        while pidfds:
            for key, _ in selector.select():
                if key.fileobj is leash:
                    return None
                selector.unregister(key.fd)
                number = pidfds.pop(key.fd)
                status = ranks[number].wait()
                if status < 0:
                    names = (known.name for known in signal.Signals if known == -status)
                    return {"rank": first_rank + number, "signal": next(names, f"signal {-status}")}
                if status > 0:
                    return {"rank": first_rank + number, "status": status}
    return None


def main(text: str) -> int:
    """Carry out the task in `text`; return 1 if a rank went wrong."""
    task = Task(**json.loads(text))
    for number in (signal.SIGINT, signal.SIGTERM):  # the referee decides what an interrupt means
        signal.signal(number, signal.SIG_IGN)
    adopt_orphans()
    leash = socket.socket(fileno=task.leash)
    leash.send(b"{}")  # with it the kernel passes on this process's id, as the launcher sees it
    try:
        if report := _watch(leash, _start(task), task.place["first_rank"]):
            leash.send(json.dumps(report).encode())
    finally:
        end_children()
    return 0 if report is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
