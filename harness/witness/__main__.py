"""The process that sends the heads of logs to a witness while they are written: `python -m harness.witness FOLDER …`.

The token is in TTA_WITNESS_TOKEN. It ends as `harness.base.companion.Orders` says.

Exit status: 0 every head that was due was received, 1 one was not.
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
from harness.base.http import HttpClient
from harness.errors import OutputError, printable
from harness.submission.layout import RESULT_PATTERN
from harness.witness.campaign import TOKEN_VARIABLE
from harness.witness.following import Followed

POLL_S = 0.25
TIMEOUT_S = 2.0
NICE = 10  # the machine belongs to the run; yet a head should not wait for it


def main(arguments: Sequence[str] | None = None) -> int:
    """Follow the logs until the orders end; return the exit status."""
    parser = argparse.ArgumentParser(prog="harness.witness")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--address", required=True)
    parser.add_argument("--parent-pid", type=int, required=True)
    parsed = parser.parse_args(arguments)
    os.nice(NICE)
    client = HttpClient(parsed.address, os.environ.get(TOKEN_VARIABLE), TIMEOUT_S, retries=0)
    orders = Orders(sys.stdin.fileno(), parsed.parent_pid)
    # What was there before is of earlier runs: each run has a process of its own, or is appended to.
    followed: dict[str, Followed] = {}
    try:
        while orders.limit_s is None:
            orders.wait(POLL_S)
            _step(parsed.folder, client, followed)
        give_up = time.monotonic() + orders.limit_s
        while time.monotonic() < give_up and not all(item.is_done for item in followed.values() if item.ticket):
            _step(parsed.folder, client, followed)
            time.sleep(0.1)
    except OutputError as error:
        _say(str(error))
        return 1
    is_whole = all(item.is_done and not item.has_failed for item in followed.values() if item.ticket)
    return 0 if is_whole else 1


def _step(folder: Path, client: HttpClient, followed: dict[str, Followed]) -> None:
    """Read what is new in every log, and send what is due."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if RESULT_PATTERN.fullmatch(entry.name) and entry.name not in followed:
                followed[entry.name] = Followed(folder / entry.name, client, _say)
    for item in followed.values():
        item.read()
        item.send()


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(f"tta: {printable(text, 700)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
