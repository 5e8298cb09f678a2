"""A child process that reads what strangers wrote: bounded in time and memory, without a network, and ended with us.

Submitted code is never run here; this is for the day on which a parser has a hole.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from harness.base import strict_json
from harness.base.processes import die_with_parent
from harness.errors import InputError, TtaError, printable

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000  # <linux/sched.h>
_PR_SET_NO_NEW_PRIVS = 38
_POLL_S = 5.0
_MAX_ANSWER = 256 << 20
_NUM_FILES = 256
_MAX_FILE_BYTES = 1 << 20  # it writes what ssh-keygen reads, and nothing else


class ChildError(TtaError):
    """The child did not answer. The message says why; whether another attempt would help is not known."""


def run(work: Callable[[], object], cpu_s: int, memory_bytes: int, beat: Callable[[], bool]) -> Any:
    """Return what `work` returns, as JSON has it, done in a child.

    beat: called every few seconds; False ends the child.

    The caller must have no other thread: only this one exists in the child.

    Raises:
        ChildError: it was ended, ran out of time or memory, or failed. InputError: `work` raised a TtaError.
    """
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        _be_child(work, write_end, cpu_s, memory_bytes)
    os.close(write_end)
    is_ended = False
    try:
        answer = _answer(read_end, cpu_s, beat)
        if answer is None:
            os.kill(pid, signal.SIGKILL)
        is_ended = True
    finally:
        os.close(read_end)
        if not is_ended:
            os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what it has started, and left
        _, status = os.waitpid(pid, 0)
    if answer is None:
        raise ChildError("the check was given up: it took too long, or the job went to another worker")
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        why = f"after {cpu_s} s of computing" if name == "SIGXCPU" else ""
        raise ChildError(f"the check was ended by {name} {why}".strip())
    try:
        kind, value = strict_json.loads(answer) if answer else ("failed", f"exit status {os.WEXITSTATUS(status)}")
    except (ValueError, TypeError) as error:
        raise ChildError(f"the check answered in another form: {printable(error)}") from None
    if kind == "refused":
        raise InputError(printable(value, 2000))
    if kind != "done":
        raise ChildError(f"the check failed: {printable(value, 600)}")
    return value


def _answer(read_end: int, cpu_s: int, beat: Callable[[], bool]) -> bytes | None:
    """Return what the child wrote until it ended; None if it is to be given up."""
    pieces: list[bytes] = []
    num_bytes = 0
    deadline_s = time.monotonic() + 4 * cpu_s  # it may wait for a core
    while True:
        ready, _, _ = select.select([read_end], [], [], _POLL_S)
        if ready:
            piece = os.read(read_end, 1 << 20)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            num_bytes += len(piece)
        elif not beat():
            return None
        if num_bytes > _MAX_ANSWER or time.monotonic() > deadline_s:
            return None


def _be_child(work: Callable[[], object], write_end: int, cpu_s: int, memory_bytes: int) -> None:
    """Do the work, write the answer, and end."""
    try:
        os.setsid()
        die_with_parent()
        _confine(cpu_s, memory_bytes)
        try:
            data = _encoded("done", work())
        except TtaError as error:
            data = _encoded("refused", str(error))
        except MemoryError:
            data = _encoded("failed", f"more than {memory_bytes:,} bytes of memory")
        except Exception as error:  # noqa: BLE001  (whatever a parser did not foresee: it is reported, and looked into)
            data = _encoded("failed", f"{type(error).__name__}: {printable(error, 500)}")
        while data:
            data = data[os.write(write_end, data) :]
    finally:
        os._exit(0)  # nothing of the parent's is flushed, closed or committed here


def _encoded(kind: str, value: object) -> bytes:
    return json.dumps([kind, value], allow_nan=False).encode()


def _confine(cpu_s: int, memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_NUM_FILES, _NUM_FILES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_FILE_BYTES, _MAX_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        # A new network has no interface; where neither may be had, the limits above are all there is.
        if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
            libc.unshare(_CLONE_NEWNET)
