"""What `tta doctor --nodes N` does: the comparison that a run begins with, and an all-reduce over all ranks."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.errors import UsageError, WorkerError, printable
from harness.launch.cluster import Cluster
from harness.run.all_reduce import all_reduce_lines
from harness.run.isolation import Places, choose
from harness.run.launcher import try_out
from harness.run.preflight import Line
from harness.run.starter import Place
from harness.submission.system import size

LIMIT_S = 180.0
LOW_DISK_BYTES = 1 << 30
PROGRAM = "all_reduce"


def examined(cluster: Cluster, num_devices: int) -> list[Line]:
    """Compare the nodes and let their ranks speak with each other.

    Raises:
        UsageError: the nodes cannot make a run together: which, and why.
    """
    cluster.check(num_devices, None, is_metered=False)
    lines = []
    for node in cluster.facts()["nodes"]:
        place = f"node {node['node']} ({printable(node['host'])})"
        devices = ", ".join(node["accelerators"]) or f"{node['num_cores']} cores, no accelerator"
        lines.append(Line(place, f"{node['address']} on {node['interface']}, {devices}, torch {node['torch']}"))
        lines.append(Line("clock", "unknown" if node["ahead_s"] is None else f"{node['ahead_s']:+.4f} s"))
        free = node["free_bytes"]
        advice = f"less than {size(LOW_DISK_BYTES)} for temporary files: make room" if free < LOW_DISK_BYTES else None
        lines.append(Line("free", size(free), advice))
    return lines + all_reduced(cluster, num_devices)


def all_reduced(cluster: Cluster, num_devices: int) -> list[Line]:
    """Return how long an all-reduce takes over all ranks, and over those of every two nodes.

    Raises:
        UsageError: the ranks do not reach each other, or add up wrongly.
    """
    with tempfile.TemporaryDirectory(prefix="tta-doctor-") as folder:
        place = Path(folder)
        form = choose("none", Places(place), Place(num_devices, num_nodes=cluster.num_nodes), try_out)
        cluster.isolate("none", Places(place), form, num_devices)
        worker = cluster.worker(num_devices, place / "all_reduce.txt", form, None, program=PROGRAM)
        try:
            found = worker.start(lambda: None, LIMIT_S)
        except WorkerError as error:
            raise UsageError(f"all-reduce: {error}; permit TCP between the nodes on all ports (firewall)") from None
        finally:
            worker.stop(0.0)
    if wrong := [result["nodes"] for result in found if not result["is_right"]]:
        raise UsageError(f"all-reduce: the sum over the nodes {wrong[0]} is wrong; one of them is defective")
    return all_reduce_lines(found, num_devices)
