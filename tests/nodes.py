"""Two nodes on one machine: network namespaces with a cable between them and host names of their own.

`ssh` to the second one is `nsenter`. Where namespaces cannot be made, tests that need them are skipped.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.killing import ROOT, Running, toy_runs

TOOLS = ("unshare", "nsenter", "ip")
ADDRESSES = ("10.77.0.1", "10.77.0.2")
# $1: a folder. The rest: a command, on the first node. The second one lives as long as its process.
CABLE = """
set -e
folder=$1; shift
ip link set lo up
unshare -nu sleep 1000 & other=$!
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.05; done
ip link add cable0 type veth peer name cable1 netns $other
ip addr add 10.77.0.1/30 dev cable0
ip link set cable0 up
nsenter -t $other -n ip addr add 10.77.0.2/30 dev cable1
nsenter -t $other -n ip link set cable1 up
nsenter -t $other -n ip link set lo up
hostname n1
nsenter -t $other -u hostname n2
printf '#!/bin/sh\\nexec nsenter -t %s -n -u -- sh -c "$2"\\n' $other > "$folder/ssh"
chmod +x "$folder/ssh"
printf 'n1 10.77.0.1\\nn2 10.77.0.2\\n' > "$folder/nodes.txt"
status=0
"$@" || status=$?
kill $other
exit $status
"""
TWO_NODES = ("unshare", "-rnu", "bash", "-c", CABLE, "cable")  # before the folder and the command
SPREAD = ("--nodes", "2", "--launcher", "hosts", "--hosts", "nodes.txt", "--ssh", "./ssh", "--isolation", "none")


def is_permitted() -> bool:
    """Whether this user can make the namespaces."""
    if any(shutil.which(tool) is None for tool in TOOLS):
        return False
    return subprocess.run(["unshare", "-rnu", "true"], capture_output=True, check=False).returncode == 0


needs_namespaces = pytest.mark.skipif(not is_permitted(), reason="NO NAMESPACES HERE: runs on two nodes are not tested")


def runs_on_two_nodes(tree: Path) -> Iterator[Callable[..., Running]]:
    """Yield a function that starts `tta run toy` on two nodes."""
    prefix = (*TWO_NODES, str(tree))
    with toy_runs(tree) as begin:
        yield lambda *arguments, **options: begin(
            *SPREAD, *arguments, prefix=prefix, environment={"PYTHONPATH": str(tree)}, **options
        )


def node_of(process: psutil.Process) -> int | None:
    """Return the node on which a process of such a run is; None if it has ended."""
    with suppress(OSError, psutil.Error):
        own = Path(f"/proc/{process.pid}/ns/net").readlink()
        return 1 if own in _second_nodes(process.uids()) else 0
    return None


def _second_nodes(user: object) -> Iterator[Path]:
    """Yield the network namespaces that a user's processes keep alive; those of other tests end at any moment."""
    for other in psutil.process_iter(["cmdline"]):
        with suppress(OSError, psutil.Error):
            if other.info["cmdline"] == ["sleep", "1000"] and other.uids() == user:
                yield Path(f"/proc/{other.pid}/ns/net").readlink()


def on_node(running: Running, node: int, module: str) -> list[psutil.Process]:
    """Return the processes of a run that run a module on a node, in the order of their start."""
    found = []
    for process in running.relatives():
        with suppress(psutil.NoSuchProcess):
            if module in process.cmdline() and node_of(process) == node:
                found.append(process)
    return sorted(found, key=lambda process: process.create_time())


__all__ = ["ADDRESSES", "ROOT", "SPREAD", "TWO_NODES", "needs_namespaces", "node_of", "on_node", "runs_on_two_nodes"]
