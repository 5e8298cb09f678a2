"""An `ssh` that besieges the referee's port before it starts the helper, and goes on until that has ended.

    python besieger.py FOLDER HOST COMMAND

Runs `FOLDER/ssh HOST COMMAND`, with the token that it is given. Writes to `FOLDER/siege.json` what it did.
"""

from __future__ import annotations

import contextlib
import json
import resource
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from harness.base.greeting import Hello, greet
from harness.base.json_socket import JsonSocket, SocketClosed
from harness.launch.protocol import NODES

NUM_CONNECTIONS = 1_000
NUM_EACH = 20
LINE_BYTES = 1 << 30


class Kept(JsonSocket):
    """A connection whose answer to the challenge is kept instead of sent."""

    kept: dict[str, Any]

    def send(self, message: Any) -> None:
        self.kept = message
        raise SocketClosed("kept")


def recorded(address: tuple[str, int], token: bytes) -> dict[str, Any]:
    """Return a greeting that is right on a connection that is closed by now."""
    channel = Kept(socket.create_connection(address))
    with contextlib.suppress(SocketClosed):
        greet(NODES, channel, token, Hello(1, "n2", None))
    channel.close()
    return channel.kept


def besiege(address: tuple[str, int], token: bytes) -> tuple[dict[str, int], list[socket.socket]]:
    """Return how often each attack was made, and the connections that stay open."""
    replayed = recorded(address, token)
    refusals = 0
    for greeting in [replayed, {**replayed, "proof": "0" * 64}] * NUM_EACH:
        channel = JsonSocket(socket.create_connection(address))
        channel.receive(10.0)
        channel.send(greeting)
        refusals += channel.receive(10.0) == {"refused": "token"}
        channel.close()
    sent = 0
    with socket.create_connection(address) as connection, contextlib.suppress(OSError):
        while sent < LINE_BYTES:
            sent += connection.send(b"x" * (1 << 20))
    opened = []
    for number in range(NUM_CONNECTIONS):
        opened.append(socket.create_connection(address))
        with contextlib.suppress(OSError):  # the referee may have dropped it
            opened[-1].sendall(b'{"tta_node": 1, ' if number % 2 else b"")
    return {"refusals": refusals, "sent": sent, "opened": len(opened)}, opened


def main(folder: Path, host: str, command: str) -> int:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    token = sys.stdin.readline()
    words = shlex.split(command)
    name, _, port = words[words.index("--connect") + 1].rpartition(":")
    done, opened = besiege((name, int(port)), token.strip().encode())
    with subprocess.Popen([str(folder.absolute() / "ssh"), host, command], stdin=subprocess.PIPE, text=True) as helper:
        assert helper.stdin is not None
        helper.stdin.write(token)
        helper.stdin.flush()
        num_late = 0
        while helper.poll() is None:  # the port is closed once the helper is there
            with contextlib.suppress(OSError):
                opened.append(socket.create_connection((name, int(port)), 1.0))
                num_late += 1
            time.sleep(0.02)
    (folder / "siege.json").write_text(json.dumps({**done, "late": num_late}))
    return helper.returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
