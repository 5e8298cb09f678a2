"""The processes of a service: one that answers, and with it, if asked, one that works."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import uvicorn

from harness.base.processes import die_with_parent, python_environment
from harness.board.connections import BACKLOG, LimitedProtocol, descriptors
from harness.errors import OutputError
from harness.service.instance import Instance
from harness.service.migrating import require_newest
from harness.service.web import application

_END_S = 30.0  # that the worker may take for the job that it has


def serve(folder: Path, host: str, port: int, *, has_worker: bool, database: str | None = None) -> None:
    """Answer until SIGINT or SIGTERM.

    Raises:
        UsageError: it is no folder of a service, or its database is of another version.
        OutputError: the address cannot be bound.
    """
    instance = Instance(folder, database=database)
    require_newest(instance.database)
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        raise OutputError(f"{host}:{port}: cannot listen: {error}") from None
    worker = _start_worker(folder) if has_worker else None
    try:
        with listener:
            address = listener.getsockname()
            print(f"http://{f'[{address[0]}]' if ':' in address[0] else address[0]}:{address[1]}/", flush=True)
            config = uvicorn.Config(
                application(instance),
                http=type("SizedProtocol", (LimitedProtocol,), {"limit": descriptors()}),
                ws="none",
                backlog=BACKLOG,
                log_level="error",  # uvicorn warns of every request that is not HTTP, which anyone can send without end
                server_header=False,
                lifespan="off",
            )
            uvicorn.Server(config).run(sockets=[listener])
    finally:
        if worker is not None:
            worker.terminate()
            try:
                worker.wait(_END_S)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        instance.close()


def _start_worker(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "harness.cli", "board", "worker", "--data", str(folder)]
    return subprocess.Popen(command, env=python_environment(), preexec_fn=die_with_parent)
