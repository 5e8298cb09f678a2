"""The process beside a run that mirrors its logs into MLflow: `python -m harness.tracking FOLDER ...`.

Ends when standard input says "done SECONDS" (no more lines will come; so long it may take) or ends without a
word, which is how it learns that the run's process is gone. Writes nothing into the folder.

Exit status: 0 everything is in the store, 1 something is missing there.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness.errors import MissingDependencyError, OutputError, printable
from harness.submission.result import SYSTEM_NAME
from harness.tracking.follower import Follower, logs_in
from harness.tracking.mirror import DONE

POLL_S = 0.5
SEND_EVERY_S = 3.0  # one transaction for what came since; each costs 10 to 50 ms and a write to the disk
LONGEST_WAIT_S = 60.0
ORPHAN_LIMIT_S = 20.0
_MARGIN_S = 1.0  # for leaving before one is killed


def main(arguments: Sequence[str] | None = None) -> int:
    """Follows until told to stop; see the module's text."""
    parser = argparse.ArgumentParser(prog="harness.tracking")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tracking-uri", required=True)
    parser.add_argument("--parent-pid", type=int, required=True)
    parsed = parser.parse_args(arguments)
    _step_aside()

    from harness.tracking.store import Store

    folder: Path = parsed.folder
    follower = Follower(lambda: logs_in(folder), folder / SYSTEM_NAME, lambda: Store(parsed.tracking_uri))
    orders = Orders(sys.stdin.fileno(), parsed.parent_pid)
    sender = Sender(follower, folder)
    try:
        sender.attempt(is_last=False)  # imports and migrates while the run is still being set up
        while orders.limit_s is None:
            orders.wait(POLL_S)
            follower.read()
            if follower.has_news:
                sender.attempt(is_last=False)
        give_up = time.monotonic() + orders.limit_s
        _step_back()
        sender.hurry()
        follower.read()
        while True:
            sender.attempt(is_last=True)
            if follower.is_finished:
                return 0 if follower.is_complete else 1
            if time.monotonic() > give_up:
                return 1
            time.sleep(0.1)
    except MissingDependencyError as error:
        _say(str(error))
        return 1


class Orders:
    """What the run's process says on standard input. limit_s: None until it says that the end has come."""

    def __init__(self, fd: int, parent_pid: int) -> None:
        self.limit_s: float | None = None
        self._fd = fd
        self._parent_pid = parent_pid
        self._said = b""

    def wait(self, seconds: float) -> None:
        """Waits so long for an order; a vanished parent is one, too."""
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if ready:
            said = os.read(self._fd, 100)
            self._said += said
            if self._said.endswith(b"\n") and self._said.startswith(DONE):
                self.limit_s = max(0.0, float(self._said.split()[1]) - _MARGIN_S)
            elif not said:
                self.limit_s = ORPHAN_LIMIT_S
        elif os.getppid() != self._parent_pid:  # a fork of the parent may hold the other end of the pipe
            self.limit_s = ORPHAN_LIMIT_S


class Sender:
    """Sends now and then; after a failure more and more rarely, and says so once."""

    def __init__(self, follower: Follower, folder: Path) -> None:
        self._follower = follower
        self._folder = folder
        self._next = 0.0
        self._wait_s = 1.0
        self._has_complained = False

    def hurry(self) -> None:
        """Forgets how long it wanted to wait: no more lines will come."""
        self._next, self._wait_s = 0.0, 1.0

    def attempt(self, is_last: bool) -> None:
        """Sends what is new, if it is time."""
        if time.monotonic() < self._next:
            return
        try:
            self._follower.send(is_last)
        except OutputError as error:
            if not self._has_complained:
                _say(f"{error}; the run goes on, and `tta sync {self._folder}` adds what will be missing there")
                self._has_complained = True
            self._next = time.monotonic() + self._wait_s
            self._wait_s = min(LONGEST_WAIT_S, 2 * self._wait_s)
        else:
            self._next, self._wait_s = time.monotonic() + SEND_EVERY_S, 1.0


def _step_aside() -> None:
    """Takes only the processor time that nobody else wants."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (OSError, AttributeError):
        os.nice(19)


def _step_back() -> None:
    """The runs are over: the one who waits now is the person at the terminal."""
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(f"tta: {printable(text, 700)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
