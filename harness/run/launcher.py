"""Starts the worker processes, exchanges messages with them, and leaves none behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.base.json_socket import BadMessage, JsonSocket, SocketClosed
from harness.base.processes import adopt_orphans, children, end_children, isolated_python
from harness.errors import OutputError, WorkerError, printable
from harness.run.plan import WorkerLost, WorkerTimeout
from harness.run.starter import Task

TICK_S = 0.25  # how often interrupts, limits and the live view are served while the worker works
_END_S = 5.0  # how long the starter may take to end the ranks and itself
_VMSTAT = Path("/proc/vmstat")
_CGROUP_EVENTS = Path("/sys/fs/cgroup/memory.events")


class LaunchedWorker:
    """`num_devices` processes, started and ended by a starter; their output goes to the file `output`.

    stream: one end of a connection, which rank 0 inherits; `start` closes it here.

    Processes that this one has started before `start` are its own; every later child is taken for the worker's, and is
    ended with it.
    """

    def __init__(self, num_devices: int, output: Path, stream: socket.socket | None = None) -> None:
        self._num_devices = num_devices
        self._output = output
        self._stream = stream
        self._spared: frozenset[int] = frozenset()
        self._process: subprocess.Popen[bytes] | None = None
        self._leash: socket.socket | None = None
        self._channel: JsonSocket | None = None
        self._oom_kills = _oom_kills()

    def start(self, on_tick: Callable[[], None], timeout_s: float) -> list[dict[str, Any]]:
        """Start the processes and return the description that each rank gives of itself, by rank.

        Raises:
            WorkerLost, WorkerTimeout: they did not start. OutputError: their output cannot be written.
        """
        adopt_orphans()
        self._spared = frozenset(children())
        control, inherited = socket.socketpair()
        self._channel = JsonSocket(control)
        self._leash, leash = socket.socketpair()
        with contextlib.ExitStack() as passed:
            for connection in (inherited, leash, self._stream):
                if connection is not None:
                    passed.enter_context(connection)
            self._process = self._popen(leash, inherited)
        world = self._wait(on_tick, timeout_s).get("world")
        if not isinstance(world, list) or not all(isinstance(rank, dict) for rank in world):
            raise WorkerError("the worker did not describe itself")
        return world

    def ask(self, command: Mapping[str, Any], on_tick: Callable[[], None], timeout_s: float) -> dict[str, Any]:
        """Send a command and return the answer.

        Raises:
            WorkerLost: the processes have ended. WorkerTimeout: no answer within `timeout_s` seconds.
        """
        assert self._channel is not None
        try:
            self._channel.send(command)
        except SocketClosed:
            raise self._lost("the worker ended before it was told to") from None
        return self._wait(on_tick, timeout_s)

    def _wait(self, on_tick: Callable[[], None], timeout_s: float) -> dict[str, Any]:
        assert self._channel is not None
        deadline = time.monotonic() + timeout_s
        while True:
            remaining_s = deadline - time.monotonic()
            try:
                answer = self._channel.receive(max(0.0, min(TICK_S, remaining_s)))
            except SocketClosed:
                raise self._lost("the worker ended while it was working") from None
            except BadMessage as error:
                raise WorkerError(f"the worker sent {error}") from None
            if answer is not None:
                return answer
            on_tick()
            if remaining_s <= 0:
                raise WorkerTimeout(f"the worker gave no answer within {timeout_s:.0f} s")

    def _popen(self, leash: socket.socket, control: socket.socket) -> subprocess.Popen[bytes]:
        stream = None if self._stream is None else self._stream.fileno()
        command = isolated_python("harness.run.worker")
        task = Task(command, leash.fileno(), control.fileno(), stream, self._num_devices)
        environment = dict(os.environ)
        cores = len(os.sched_getaffinity(0))
        environment.setdefault("OMP_NUM_THREADS", str(max(1, cores // self._num_devices)))
        environment["TOKENIZERS_PARALLELISM"] = "false"
        try:
            with self._output.open("ab") as output:
                return subprocess.Popen(
                    isolated_python("harness.run.starter", task.as_json()),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    pass_fds=[fd for fd in (task.leash, task.control, task.stream) if fd is not None],
                    start_new_session=True,  # Ctrl-C is for the referee, which then ends the worker
                )
        except OSError as error:
            raise OutputError(f"{self._output}: the worker cannot be started: {error.strerror}") from None

    def _lost(self, what: str) -> WorkerLost:
        """Return the exception for a worker that has ended, with the evidence of the cause."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        report = self._report()
        evidence = [what]
        if "signal" in report:
            evidence.append(f"rank {report['rank']} was killed by {report['signal']}")
        elif report:
            evidence.append(f"the exit status of rank {report['rank']} was {report['status']}")
        elif self._process.returncode:
            evidence.append(f"the exit status of the starter was {self._process.returncode}")
        errors = [line for line in self._tail().splitlines() if re.match(r"[\w.]*(Error|Exception)\b", line.strip())]
        if errors and "signal" not in report:
            evidence.append(f"its last error: {printable(errors[0].strip(), 300)}")
        if _oom_kills() > self._oom_kills:
            return WorkerLost("; ".join([*evidence, "the kernel ran out of memory and killed a process"]), "oom")
        if any(re.match(r"torch\.OutOfMemoryError|torch\.cuda\.OutOfMemoryError|MemoryError", line) for line in errors):
            return WorkerLost("; ".join(evidence), "oom")  # of a rank that is not connected to the referee
        return WorkerLost("; ".join([*evidence, f"its output is in {self._output}"]))

    def _tail(self) -> str:
        with self._output.open("rb") as stream:
            stream.seek(max(0, self._output.stat().st_size - 20_000))
            return stream.read().decode("utf-8", "replace")

    def _report(self) -> dict[str, Any]:
        """Return what the starter reported of the rank that went wrong first; empty if it reported nothing."""
        assert self._leash is not None
        self._leash.setblocking(False)
        try:
            data = self._leash.recv(1 << 12)
        except OSError:  # it has not reported, or was killed
            return {}
        return dict(json.loads(data)) if data else {}

    def stop(self, grace_s: float) -> None:
        """Wait `grace_s` seconds for the processes to end, then kill them and all that descends from them."""
        if self._process is not None and grace_s > 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        if self._leash is not None:
            self._leash.close()  # whereupon the starter ends the ranks
            self._leash = None
        if self._process is not None:
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            end_children(self._spared)
            self._process = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def _oom_kills() -> int:
    """Count the out-of-memory kills of the kernel, on this machine and in this control group."""
    kills = 0
    for place in (_VMSTAT, _CGROUP_EVENTS):
        try:
            found = re.search(r"^oom_kill (\d+)", place.read_text(), re.MULTILINE)
        except OSError:
            continue
        kills += int(found.group(1)) if found else 0
    return kills
