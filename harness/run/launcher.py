"""Starts the worker processes, exchanges messages with them, and leaves none behind."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.base.json_socket import BadMessage, JsonSocket, SocketClosed
from harness.base.processes import adopt_orphans, children, end_children, isolated_python, refuse_tracing
from harness.errors import OutputError, WorkerError, printable
from harness.run.environment import logged, worker_environment
from harness.run.isolation import Isolation, Places, choose
from harness.run.plan import WorkerLost, WorkerTimeout
from harness.run.starter import Place, Task

TICK_S = 0.25  # how often interrupts, limits and the live view are served while the worker works
_END_S = 5.0  # how long the starter may take to end the ranks and itself
_PROBE_S = 60.0
_PRIVATE = f"tta-worker-{os.getuid()}-"
_VMSTAT = Path("/proc/vmstat")
_CGROUP_EVENTS = Path("/sys/fs/cgroup/memory.events")


def is_consequence(error: str) -> bool:
    """Whether a rank's error follows from another rank's: one whose peer is gone loses its connection."""
    return "connection" in error.lower()


class LaunchedRanks:
    """The ranks of one node: started, confined and ended by a starter; their output goes to the file `output`.

    place: where they are in the world. program: the module that a rank runs, with its arguments.

    Processes that this one has started before `start` are its own; every later child is taken for one of the ranks'
    and is ended with them.
    """

    def __init__(
        self, place: Place, output: Path, isolation: Isolation, program: Sequence[str] = ("harness.run.worker",)
    ) -> None:
        self._place = place
        self._output = output
        self._isolation = isolation
        self._program = program
        self._spared: frozenset[int] = frozenset()
        self._private: tuple[Path, int] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._curtain: subprocess.Popen[bytes] | None = None
        self._leash: socket.socket | None = None
        self._environment: dict[str, str] = {}
        self._oom_kills = _oom_kills()
        self._num_before = 0  # bytes of output, of an attempt before this one

    @property
    def isolation(self) -> dict[str, Any]:
        """What confines the processes, for the log."""
        return {**self._isolation.facts, "environment": logged(self._environment)}

    @property
    def has_ended(self) -> bool:
        """Whether the ranks have ended, or one of them went wrong; False if they were not started."""
        return self._process is not None and self._process.poll() is not None

    def launch(self, control: socket.socket | None = None, stream: socket.socket | None = None) -> None:
        """Start the ranks. control, stream: ends of connections, which rank 0 inherits; they are closed here.

        Raises:
            OutputError: their output cannot be written.
        """
        refuse_tracing()
        adopt_orphans()
        self._spared = frozenset(children())
        self._leash, leash = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._leash.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        with contextlib.ExitStack() as passed:
            for connection in (control, leash, stream):
                if connection is not None:
                    passed.enter_context(connection)
            self._process = self._popen(leash, control, stream)

    def draw_curtain(self) -> None:
        """Keep the data from the ranks until `give_data`, if that is how they are confined.

        Raises:
            WorkerLost: the namespace of the ranks is gone.
        """
        if self._isolation.covered is not None:
            self._curtain = self._drawn(self._isolation.covered)

    def give_data(self, data_dir: Path) -> str:
        """Let the processes see the data from now on, if they did not before; return where.

        Raises:
            WorkerLost: the namespace of the ranks is gone.
        """
        if self._curtain is not None:
            assert self._curtain.stdin is not None
            assert self._curtain.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                self._curtain.stdin.write(b"\n")
                self._curtain.stdin.flush()
            if (answer := self._curtain.stdout.readline()) != b"open\n":
                raise self.lost(f"the data cannot be shown to the worker: {printable(answer.decode().strip(), 200)}")
        return str(data_dir.resolve())

    def _drawn(self, folder: str) -> subprocess.Popen[bytes]:
        """Return the process that will uncover `folder` in the namespace of the ranks; it is there already."""
        assert self._leash is not None
        _, credentials, _, _ = self._leash.recvmsg(1 << 12, socket.CMSG_SPACE(12))
        pid, _, _ = struct.unpack("=3i", credentials[0][2])  # unix(7): of the starter, as the kernel translates it
        curtain = subprocess.Popen(
            isolated_python("harness.run.curtain", str(pid), folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the referee
        )
        assert curtain.stdout is not None
        if (answer := curtain.stdout.readline()) != b"ready\n":
            raise self.lost(f"the data cannot be kept from the worker: {printable(answer.decode().strip(), 200)}")
        return curtain

    def _popen(
        self, leash: socket.socket, control: socket.socket | None, stream: socket.socket | None
    ) -> subprocess.Popen[bytes]:
        control_fd, stream_fd = (None if end is None else end.fileno() for end in (control, stream))
        command = isolated_python(*self._program)
        confinement = self._isolation.confinement.record()
        task = Task(command, dataclasses.asdict(self._place), leash.fileno(), control_fd, stream_fd, confinement)
        fds = {fd for fd in (task.leash, task.control, task.stream) if fd is not None}
        home = self._isolation.home
        if home is None:
            self._private = _private_folder()
            home = str(self._private[0])
            fds.add(self._private[1])  # keeps the folder locked as long as the starter lives
        cores = len(os.sched_getaffinity(0))
        is_local = self._isolation.facts["network"] == "loopback"
        own = worker_environment(os.environ, home, self._place.num_ranks, cores, is_local)
        self._environment = {**own, **self._place.variables}
        try:
            with self._output.open("ab") as output:
                self._num_before = output.tell()
                return subprocess.Popen(
                    [*self._isolation.prefix, *isolated_python("harness.run.starter", task.as_json())],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=None if self._private is None else home,
                    env=self._environment,
                    pass_fds=fds,
                    start_new_session=True,  # Ctrl-C is for the referee, which then ends the worker
                )
        except OSError as error:
            raise OutputError(f"{self._output}: the worker cannot be started: {error.strerror}") from None

    def lost(self, what: str) -> WorkerLost:
        """Return the exception for ranks that have ended, with the evidence of the cause."""
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
            evidence.append("the kernel ran out of memory and killed a process")
            return WorkerLost("; ".join(evidence), "oom", is_cause=True)
        if any(re.match(r"torch\.OutOfMemoryError|torch\.cuda\.OutOfMemoryError|MemoryError", line) for line in errors):
            return WorkerLost("; ".join(evidence), "oom", is_cause=True)  # of a rank not connected to the referee
        # A starter that failed without reporting a rank was itself killed.
        is_killed = "signal" in report or (not report and bool(self._process.returncode))
        is_cause = is_killed or bool(errors and not is_consequence(errors[0]))
        return WorkerLost("; ".join([*evidence, f"its output is in {self._output}"]), is_cause=is_cause)

    def _tail(self) -> str:
        with self._output.open("rb") as stream:
            stream.seek(max(self._num_before, self._output.stat().st_size - 20_000))
            return stream.read().decode("utf-8", "replace")

    def _report(self) -> dict[str, Any]:
        """Return what the starter reported of the rank that went wrong first; empty if it reported nothing."""
        assert self._leash is not None
        self._leash.setblocking(False)
        report: dict[str, Any] = {}
        with contextlib.suppress(OSError):  # nothing more is there, or the starter was killed
            while data := self._leash.recv(1 << 12):
                report |= json.loads(data)
        return report

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
            if self._curtain is not None:
                self._curtain.communicate()  # the end of its input ends it
                self._curtain = None
            end_children(self._spared)
            self._process = None
        if self._private is not None:
            folder, lock = self._private
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
            self._private = None


class LaunchedWorker(LaunchedRanks):
    """The ranks of the referee's node, of which it is connected to rank 0.

    stream: one end of a connection, which rank 0 inherits; `start` closes it here.
    """

    def __init__(
        self,
        place: Place,
        output: Path,
        isolation: Isolation,
        stream: socket.socket | None = None,
        program: Sequence[str] = ("harness.run.worker",),
    ) -> None:
        super().__init__(place, output, isolation, program)
        self._stream = stream
        self._channel: JsonSocket | None = None

    def start(self, on_tick: Callable[[], None], timeout_s: float) -> list[dict[str, Any]]:
        """Start the processes and return the description that each rank of the world gives of itself, by rank.

        Raises:
            WorkerLost, WorkerTimeout: they did not start. OutputError: their output cannot be written.
        """
        control, inherited = socket.socketpair()
        self._channel = JsonSocket(control)
        self.launch(inherited, self._stream)
        world = self._wait(on_tick, timeout_s).get("world")
        if not isinstance(world, list) or not all(isinstance(rank, dict) for rank in world):
            raise WorkerError("the worker did not describe itself")
        self.draw_curtain()
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
            raise self.lost("the worker ended before it was told to") from None
        return self._wait(on_tick, timeout_s)

    def _wait(self, on_tick: Callable[[], None], timeout_s: float) -> dict[str, Any]:
        assert self._channel is not None
        deadline = time.monotonic() + timeout_s
        while True:
            remaining_s = deadline - time.monotonic()
            try:
                answer = self._channel.receive(max(0.0, min(TICK_S, remaining_s)))
            except SocketClosed:
                raise self.lost("the worker ended while it was working") from None
            except BadMessage as error:
                raise WorkerError(f"the worker sent {error}") from None
            if answer is not None:
                return answer
            on_tick()
            if remaining_s <= 0:
                raise WorkerTimeout(f"the worker gave no answer within {timeout_s:.0f} s")

    def stop(self, grace_s: float) -> None:
        """Wait `grace_s` seconds for the processes to end, then kill them and all that descends from them."""
        super().stop(grace_s)
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def try_out(isolation: Isolation, places: Places) -> str | None:
    """Start a process in a form of confinement; return why it does not work, None if it does what it should."""
    fd = os.memfd_create("output")
    output = Path(f"/proc/self/fd/{fd}")
    program = ("harness.run.probe", str(places.data.resolve()), *map(str, places.hidden))
    worker = LaunchedWorker(Place(), output, isolation, program=program)
    try:
        (seen,) = worker.start(lambda: None, _PROBE_S)
        if seen["seen"]:
            return f"does not hide {printable(seen['seen'][0])}"
        if seen["devices"]:
            return f"does not let a worker use {printable(seen['devices'][0])}"
        if isolation.covered is not None and seen["data"]:
            return "does not keep the data from a worker"
        worker.give_data(places.data)
        if not worker.ask({}, lambda: None, _PROBE_S)["data"]:
            return "does not show a worker the data"
    except (WorkerError, OutputError) as error:
        lines = output.read_text(errors="replace").strip().splitlines()
        return printable(lines[-1] if lines else error, 300)
    finally:
        worker.stop(0.0)
        os.close(fd)
    return None


def strongest_isolation() -> Isolation:
    """Return the strongest form of confinement on this machine, tried on a folder made for that."""
    with tempfile.TemporaryDirectory(prefix="tta-doctor-") as folder:
        data = Path(folder) / "cache" / "data"
        data.mkdir(parents=True)
        (data / "metadata.json").write_text("{}")
        return choose("auto", Places(data, (Path(folder),)), Place(), try_out)


def _private_folder() -> tuple[Path, int]:
    """Return a new folder in that for temporary files, and the descriptor that holds its lock.

    Those of this user that no one holds were left by runs that were killed, and are removed.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_PRIVATE}*"):
        with contextlib.suppress(OSError), _locked(left):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_PRIVATE))
    with _locked(folder) as lock:
        return folder, os.dup(lock)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Hold the lock of a folder; OSError if another process has it."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield fd
    finally:
        os.close(fd)


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
