"""The processes of a service: one that answers, and with it, if asked, one that works."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import uvicorn

from harness.base.processes import die_with_parent, python_environment
from harness.board.connections import BACKLOG, LimitedProtocol, descriptors
from harness.errors import OutputError
from harness.service import oidc
from harness.service.instance import Instance
from harness.service.migrating import require_newest
from harness.service.web import application

_END_S = 30.0  # that the worker may take for the job that it has
_LOOK_S = 1.0
_PAUSE_S, _MAX_PAUSE_S = 2.0, 30.0  # before another worker is started
_WELL_S = 60.0  # a worker that went on for as long did not end for the reason for which the one before did


def serve(folder: Path, host: str, port: int, *, has_worker: bool, database: str | None = None) -> None:
    """Answer until SIGINT or SIGTERM.

    Raises:
        UsageError: it is no folder of a service, or its database is of another version.
        MissingDependencyError, InputError: an identity provider is set, and cannot be used.
        OutputError: the address cannot be bound.
    """
    instance = Instance(folder, database=database)
    try:
        oidc.require_ready(instance.settings.oidc)
        require_newest(instance.database)
        _answer(instance, host, port, has_worker=has_worker)
    finally:
        instance.close()


def _answer(instance: Instance, host: str, port: int, *, has_worker: bool) -> None:
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        raise OutputError(f"{host}:{port}: cannot listen: {error}") from None
    worker = _Supervisor(instance.folder) if has_worker else None
    try:
        with listener:
            address = listener.getsockname()
            print(f"http://{f'[{address[0]}]' if ':' in address[0] else address[0]}:{address[1]}/", flush=True)
            uvicorn.Server(configuration(instance)).run(sockets=[listener])
    finally:
        if worker is not None:
            worker.end()


def configuration(instance: Instance) -> uvicorn.Config:
    """Return how the service is served."""
    return uvicorn.Config(
        application(instance),
        http=type("SizedProtocol", (LimitedProtocol,), {"limit": descriptors()}),
        ws="none",
        backlog=BACKLOG,
        log_level="error",  # uvicorn warns of every request that is not HTTP, which anyone can send without end
        server_header=False,
        # A request is from where its connection is from: X-Forwarded-For could say the address of the trusted proxy.
        proxy_headers=False,
        lifespan="on",
    )


def next_pause_s(before_s: float, lived_s: float) -> float:
    """Return how long to wait before another worker is started, after one that lived so long.

    before_s: the pause before that one; 0 if it was the first.
    """
    return _PAUSE_S if lived_s >= _WELL_S or not before_s else min(_MAX_PAUSE_S, 2 * before_s)


class _Supervisor:
    """Keeps a worker going: one that ends by itself is started again, after a pause that grows while they end soon."""

    def __init__(self, folder: Path) -> None:
        self._command = [sys.executable, "-m", "harness.cli", "board", "worker", "--data", str(folder)]
        self._is_ending = threading.Event()
        self._process = self._started()
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)
        self._thread.start()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, env=python_environment(), preexec_fn=_follow_parent)

    def _watch(self) -> None:
        pause_s, started_s = 0.0, time.monotonic()
        while not self._is_ending.wait(_LOOK_S):
            status = self._process.poll()
            if status is None:
                continue
            pause_s = next_pause_s(pause_s, time.monotonic() - started_s)
            print(f"tta: the worker ended with status {status}; another starts in {pause_s:.0f} s", file=sys.stderr)
            if self._is_ending.wait(pause_s):
                return
            self._process, started_s = self._started(), time.monotonic()
        # By this thread, which may be the worker's parent to the kernel: with its end the worker would be killed.
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def end(self) -> None:
        """End the worker, after the job that it has."""
        self._is_ending.set()
        self._thread.join()


def _follow_parent() -> None:
    """Between fork and exec: end with the server, and obey SIGINT, which the server may ignore."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
