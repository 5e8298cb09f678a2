"""The launchers that need no scheduler: `local`, all nodes on this machine, and `hosts`, by ssh or by hand."""

from __future__ import annotations

import contextlib
import ipaddress
import platform
import shlex
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.base.files import small_file
from harness.errors import UsageError, printable
from harness.launch.protocol import Handle, Node

SSH = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
LOOPBACK = "127.0.0.1"
ARRIVAL_S = 45.0
BY_HAND_S = 600.0
MAX_NODES = 4096


class Started:
    """A program that keeps a helper running: ssh, srun, or the helper itself."""

    def __init__(self, command: Sequence[str], token: str) -> None:
        """Raises:
        UsageError: the program cannot be started.
        """
        self._program = Path(command[0]).name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed by `close`)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                start_new_session=True,  # Ctrl-C is for the referee
            )
        except OSError as error:
            self._errors.close()
            raise UsageError(f"{printable(command[0])}: cannot be started: {error.strerror}") from None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `ended` says why
            self._process.stdin.write(token.encode() + b"\n")
            self._process.stdin.flush()

    def ended(self) -> str | None:
        """Return why the program has ended; None while it has not."""
        status = self._process.poll()
        if status is None:
            return None
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        how = f"{self._program} ended with status {status}" if status >= 0 else f"{self._program} was killed"
        return f"{how}: {printable(lines[-1].removeprefix('tta: '), 500)}" if lines else how

    def close(self, grace_s: float) -> None:
        """Wait for the end of the program, then kill it."""
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._errors.close()


class LocalLauncher:
    """All nodes on this machine, reached over the loopback interface: to try things out."""

    arrival_s = ARRIVAL_S

    def __init__(self, num_nodes: int) -> None:
        self.nodes = [Node(number, platform.node(), LOOPBACK) for number in range(num_nodes)]

    def start(self, node: Node, command: Sequence[str], token: str) -> Handle:
        """Start the helper as a child."""
        return Started(command, token)

    def facts(self) -> Mapping[str, Any]:
        return {"kind": "local"}


class HostsLauncher:
    """Nodes of a list, by ssh. ssh: the command before the host and the command line for its shell."""

    arrival_s = ARRIVAL_S

    def __init__(self, nodes: Sequence[Node], ssh: Sequence[str] = SSH) -> None:
        self.nodes = list(nodes)
        self._ssh = list(ssh)
        if shutil.which(self._ssh[0]) is None:
            raise UsageError(f"--launcher hosts: {printable(self._ssh[0])} is not installed here; see --ssh, --by-hand")

    def start(self, node: Node, command: Sequence[str], token: str) -> Handle:
        """Start the helper by ssh."""
        return Started([*self._ssh, node.name, shlex.join(command)], token)

    def facts(self) -> Mapping[str, Any]:
        return {"kind": "hosts", "ssh": " ".join(self._ssh)}


class Nothing:
    """Where a person has started the helper, there is nothing to watch."""

    def ended(self) -> str | None:
        return None

    def close(self, grace_s: float) -> None:
        pass


class ByHandLauncher:
    """Nodes where a person starts the helpers, by the lines that `say` shows."""

    arrival_s = BY_HAND_S

    def __init__(self, nodes: Sequence[Node], say: Callable[[str], None], is_token_known: bool) -> None:
        self.nodes = list(nodes)
        self._say = say
        self._is_token_known = is_token_known

    def start(self, node: Node, command: Sequence[str], token: str) -> Handle:
        """Show the line to be run on the node, and the token if it is not in the environment that the person set."""
        words = list(command)
        own = ["tta", *words[words.index("node") :]]
        asked = "" if self._is_token_known else f"   (it asks for the token: {token})"
        self._say(f"on node {node.number} ({node.name}): {shlex.join(own)}{asked}")
        return Nothing()

    def facts(self) -> Mapping[str, Any]:
        return {"kind": "hosts", "ssh": None}


def read_hosts(path: Path, num_nodes: int, address_of: str | None = None) -> list[Node]:
    """Return the nodes of a file: a name on each line and, if the name does not lead there, the address.

    address_of: a pattern for the name of the address, such as `{}-ib`.

    Raises:
        UsageError: the file has not as many nodes, names one twice, or an address cannot be used.
    """
    lines = [line.split("#")[0].split() for line in small_file(path).decode("utf-8", "replace").splitlines()]
    rows = [(number, words) for number, words in enumerate(lines, 1) if words]
    if len(rows) != num_nodes:
        raise UsageError(f"{path}: has {len(rows)} nodes; --nodes is {num_nodes}, and every node has a line of its own")
    nodes: list[Node] = []
    for number, words in rows:
        place = f"{path}:{number}"
        if len(words) > 2 or words[0].startswith("-"):
            raise UsageError(f"{place}: must be NAME or NAME ADDRESS")
        wanted = words[1] if len(words) == 2 else (address_of or "{}").replace("{}", words[0])
        nodes.append(Node(len(nodes), words[0], resolved(wanted, place)))
    for field in ("name", "address"):
        seen: dict[object, int] = {}
        for node in nodes:
            value = getattr(node, field)
            if value in seen:
                raise UsageError(
                    f"{path}: nodes {seen[value]} and {node.number} have the {field} {printable(value)}; every node "
                    "needs one of its own"
                )
            seen[value] = node.number
    return nodes


def resolved(name: str, place: str) -> str:
    """Return the address of a name.

    Raises:
        UsageError: it has none, or that of the machine itself, where no other node reaches it.
    """
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(
            f"{place}: {printable(name)} has no address: {error.strerror}; give the address after the name, or "
            "--address-of"
        ) from None
    addresses = sorted({str(entry[4][0]) for entry in found}, key=lambda text: ":" in text)
    outside = [address for address in addresses if not ipaddress.ip_address(address.partition("%")[0]).is_loopback]
    if not outside:
        raise UsageError(
            f"{place}: {printable(name)} is {addresses[0]}, where no other node reaches it; give its address in the "
            "network of the nodes after the name, or --address-of"
        )
    return outside[0]
