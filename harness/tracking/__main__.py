"""The process that mirrors the logs of a run into MLflow while it runs: `python -m harness.tracking FOLDER ...`.

It ends when standard input has "done SECONDS" (the logs are complete; the rest may take this long), or ends without
it: then the process of the run is gone. It writes nothing to the folder.

Exit status: 0 everything is in the store, 1 something is missing there.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness.base.companion import Orders
from harness.errors import MissingDependencyError, OutputError, printable
from harness.submission.layout import SYSTEM_NAME
from harness.tracking.follower import Follower, logs_in

POLL_S = 0.5
SEND_EVERY_S = 3.0  # one transaction for all news; each costs 10 to 50 ms and a disk write
LONGEST_WAIT_S = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Follow the logs until the orders end; return the exit status."""
    parser = argparse.ArgumentParser(prog="harness.tracking")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tracking-uri", required=True)
    parser.add_argument("--parent-pid", type=int, required=True)
    parsed = parser.parse_args(arguments)
    _step_aside()

    from harness.tracking.store import Store
    from harness.tracking.system_metrics import SystemMetrics

    folder: Path = parsed.folder
    follower = Follower(lambda: logs_in(folder), folder / SYSTEM_NAME, lambda: Store(parsed.tracking_uri))
    orders = Orders(sys.stdin.fileno(), parsed.parent_pid)
    sender = Sender(follower, folder)
    try:
        sender.attempt(is_last=False)  # imports and migrates while the run is being set up
        machine = SystemMetrics()
        while orders.limit_s is None:
            orders.wait(POLL_S)
            follower.read()
            if (values := machine.read(time.monotonic())) is not None:
                follower.measure(values, time.time_ns() // 1_000_000)
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


class Sender:
    """Sends at intervals, which grow after a failure; complains once."""

    def __init__(self, follower: Follower, folder: Path) -> None:
        self._follower = follower
        self._folder = folder
        self._next = 0.0
        self._wait_s = 1.0
        self._has_complained = False

    def hurry(self) -> None:
        """Send at the next attempt: the logs are complete."""
        self._next, self._wait_s = 0.0, 1.0

    def attempt(self, is_last: bool) -> None:
        """Send what is new, if it is time."""
        if time.monotonic() < self._next:
            return
        try:
            self._follower.send(is_last)
        except OutputError as error:
            if not self._has_complained:
                _say(f"{error}; the run goes on; `tta sync {self._folder}` adds what will be missing there")
                self._has_complained = True
            self._next = time.monotonic() + self._wait_s
            self._wait_s = min(LONGEST_WAIT_S, 2 * self._wait_s)
        else:
            self._next, self._wait_s = time.monotonic() + SEND_EVERY_S, 1.0


def _step_aside() -> None:
    """Use only processor time that no other process wants."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (OSError, AttributeError):
        os.nice(19)


def _step_back() -> None:
    """Use normal priority: the runs are over, and the user is waiting."""
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(f"tta: {printable(text, 700)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
