"""A process that follows a run from beside: started with it, told when it is over, never waited for meanwhile."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.base.processes import python_environment

# One thread and no accelerator: the machine belongs to the run.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HIP_VISIBLE_DEVICES": "",
}
_DONE = b"done"
ORPHAN_LIMIT_S = 20.0
_MARGIN_S = 1.0  # to leave before being killed


@dataclass(slots=True)
class Companion:
    """The process; None if it could not be started."""

    process: subprocess.Popen[bytes] | None

    def finish(self, timeout_s: float) -> bool:
        """Tell the process that the logs are complete and wait until it has done the rest.

        It is killed if it has not finished after `timeout_s` seconds.

        Returns:
            Whether it says that nothing is missing.
        """
        process = self.process
        if process is None:
            return False
        assert process.stdin is not None
        with contextlib.suppress(OSError):  # it may have ended
            process.stdin.write(_DONE + b" %d\n" % max(0, int(timeout_s)))
            process.stdin.flush()
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            return process.wait(timeout_s) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def start(module: str, what: str, arguments: Sequence[str], more: Mapping[str, str] | None = None) -> Companion:
    """Start `python -m module`, which has `Orders`; return immediately.

    what: for the message where it cannot be started. more: variables of its environment.
    """
    command = [sys.executable, "-P", "-m", module, *arguments, f"--parent-pid={os.getpid()}"]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,  # standard output belongs to the verb
            env={**python_environment(), **_ENVIRONMENT, **(more or {})},
            start_new_session=True,  # Ctrl-C is for the run, which then ends this process
        )
    except OSError as error:
        print(f"tta: {what} cannot be started: {error.strerror}", file=sys.stderr)
        return Companion(None)
    return Companion(process)


class Orders:
    """Standard input, from the process of the run. limit_s: seconds that are left; None while the run goes on."""

    def __init__(self, fd: int, parent_pid: int) -> None:
        self.limit_s: float | None = None
        self._fd = fd
        self._parent_pid = parent_pid
        self._received = b""

    def wait(self, seconds: float) -> None:
        """Wait up to `seconds` for an order; the end of the parent process is also one."""
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if ready:
            data = os.read(self._fd, 100)
            self._received += data
            if self._received.endswith(b"\n") and self._received.startswith(_DONE):
                self.limit_s = max(0.0, float(self._received.split()[1]) - _MARGIN_S)
            elif not data:
                self.limit_s = ORPHAN_LIMIT_S
        elif os.getppid() != self._parent_pid:  # a fork of the parent may still have the other end of the pipe open
            self.limit_s = ORPHAN_LIMIT_S
