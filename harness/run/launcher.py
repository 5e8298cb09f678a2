"""Starts the worker processes through accelerate's launcher, exchanges messages with them, and leaves none behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from harness.base.json_socket import BadMessage, JsonSocket, SocketClosed
from harness.base.processes import die_with_parent, python_environment
from harness.errors import OutputError, WorkerError, printable
from harness.run.plan import WorkerLost, WorkerTimeout

TICK_S = 0.25  # how often interrupts, limits and the live view are served while the worker works
_MAX_FOLDER_BYTES = 80
_MARK = "TTA_WORKER"  # in the environment of all descendants of the launcher, so that each can be found
_VMSTAT = Path("/proc/vmstat")
_CGROUP_EVENTS = Path("/sys/fs/cgroup/memory.events")


class LaunchedWorker:
    """`num_devices` processes under `accelerate launch`; their output goes to the file `output`."""

    def __init__(self, num_devices: int, output: Path) -> None:
        self._num_devices = num_devices
        self._output = output
        # Mode 0700: no other user can connect. A socket's path has at most 107 bytes; a cluster's TMPDIR may be longer.
        is_short = len(os.fsencode(tempfile.gettempdir())) < _MAX_FOLDER_BYTES
        self._folder = Path(tempfile.mkdtemp(prefix="tta-", dir=None if is_short else "/tmp"))  # noqa: S108
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: JsonSocket | None = None
        self._oom_kills = _oom_kills()

    def start(self, on_tick: Callable[[], None], timeout_s: float) -> list[dict[str, Any]]:
        """Start the processes and return the description that each rank gives of itself, by rank.

        Raises:
            WorkerLost, WorkerTimeout: they did not start. OutputError: their output cannot be written.
        """
        place = self._folder / "referee.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(place))
            listener.listen(1)
            listener.settimeout(TICK_S)
            self._process = self._popen(place)
            deadline = time.monotonic() + timeout_s
            while self._channel is None:
                on_tick()
                try:
                    self._channel = JsonSocket(listener.accept()[0])
                except TimeoutError:
                    if self._process.poll() is not None:
                        raise self._lost("the worker did not start") from None
                    if time.monotonic() > deadline:
                        raise WorkerTimeout(f"the worker did not start within {timeout_s:g} s") from None
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

    def _popen(self, place: Path) -> subprocess.Popen[bytes]:
        config = self._folder / "accelerate.yaml"
        # Its own file, so that the user's default configuration of accelerate cannot change a run.
        config.write_text(
            "compute_environment: LOCAL_MACHINE\n"
            f"distributed_type: '{'NO' if self._num_devices == 1 else 'MULTI_GPU'}'\n"
            f"num_processes: {self._num_devices}\nnum_machines: 1\nmachine_rank: 0\n"
            "mixed_precision: 'no'\nuse_cpu: false\nmain_training_function: main\n"
        )
        command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(config)]
        if self._num_devices > 1:
            # `--cpu --num_processes 2` would silently start one process; `--multi_gpu` without a GPU uses gloo.
            command += ["--multi_gpu", "--main_process_port", str(_free_port())]
        command += ["--num_processes", str(self._num_devices), "--num_machines", "1"]
        command += ["--mixed_precision", "no", "--dynamo_backend", "no", "-m", "harness.run.worker", str(place)]
        environment = python_environment()
        # A random.py in the current folder must not change a run, nor may a module import files outside the result.
        environment["PYTHONSAFEPATH"] = "1"
        cores = len(os.sched_getaffinity(0))
        environment.setdefault("OMP_NUM_THREADS", str(max(1, cores // self._num_devices)))
        environment["TOKENIZERS_PARALLELISM"] = "false"
        environment[_MARK] = str(self._folder)
        try:
            with self._output.open("ab") as output:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,  # Ctrl-C is for the referee, which then ends the worker
                    preexec_fn=die_with_parent,
                )
        except OSError as error:
            raise OutputError(f"{self._output}: the worker cannot be started: {error.strerror}") from None

    def _lost(self, what: str) -> WorkerLost:
        """Return the exception for a worker that has ended, with the evidence of the cause."""
        assert self._process is not None
        try:
            status: int | None = self._process.wait(5)
        except subprocess.TimeoutExpired:
            status = None
        evidence = [what]
        tail = self._tail()
        if died := re.search(r"died with <Signals\.(SIG[A-Z0-9]+)|[Ss]ignal (\d+) \((SIG[A-Z0-9]+)\)", tail):
            evidence.append(f"killed by {died.group(1) or died.group(3)}")
        elif status is not None:
            evidence.append(f"the exit status of the launcher was {status}")
        errors = [line for line in tail.splitlines() if re.match(r"[\w.]*(Error|Exception)\b", line.strip())]
        if errors and not died:
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

    def _descendants(self) -> list[psutil.Process]:
        """Return the living descendants of the launcher, including those that left its session."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_MARK) == str(self._folder) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def stop(self, grace_s: float) -> None:
        """Wait `grace_s` seconds for the processes to end, kill the rest, and remove temporary files."""
        if self._process is not None:
            if grace_s > 0:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(grace_s)
            self._process.kill()
            self._process.wait()
            for _ in range(5):  # a process that was just being started is found in the next pass
                left = self._descendants()
                if not left:
                    break
                for process in left:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
                psutil.wait_procs(left, timeout=5)
            self._process = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        shutil.rmtree(self._folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
