"""Stands in for a worker when a form of confinement is tried: says what it sees, before and after `start`.

Started by the starter as `python -m harness.run.probe --control FD DATA FOLDER...`.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

from harness.base.json_socket import JsonSocket, SocketClosed


def _has_files(folder: Path) -> bool:
    """Whether a file in the folder can be read."""
    with suppress(OSError):
        for path in filter(Path.is_file, folder.iterdir()):
            path.open("rb").close()
            return True
    return False


def main(control: int, data: Path, hidden: list[Path]) -> int:
    channel = JsonSocket(socket.socket(fileno=control))
    devices = [path for path in Path("/dev").glob("nvidia[0-9]*") if not os.access(path, os.R_OK | os.W_OK)]
    seen = [str(folder) for folder in hidden if _has_files(folder)]
    channel.send({"world": [{"data": _has_files(data), "seen": seen, "devices": [str(path) for path in devices]}]})
    with suppress(SocketClosed):
        while channel.receive(None) is not None:
            channel.send({"data": _has_files(data)})
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", type=int)
    parser.add_argument("data", type=Path)
    parser.add_argument("hidden", type=Path, nargs="*")
    sys.exit(main(**vars(parser.parse_args())))
