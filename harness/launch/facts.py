"""What a node is, as far as the nodes of a run must agree, and where they do not. The comparison is pure."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.base.processes import marked
from harness.errors import DataError, printable
from harness.metering.meters.nvml import load_nvml
from harness.run import data_cache
from harness.run.accelerators import read_accelerators
from harness.run.environment import passed_on
from harness.run.identity import identify
from harness.run.starter import MARK

MAX_CLOCK_S = 0.8  # the power agent's limit
RESTARTS = "SLURM_RESTART_COUNT"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SHOWN = 3
_COMPARED = ("CUDA_", "GLOO_", "NCCL_", "TORCH_NCCL_")
_LISTS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")

Facts = Mapping[str, Any]


def devices_here() -> list[str]:
    """Return the names of the accelerators that processes can use here."""
    return usable([device.name for device in read_accelerators(nvml=load_nvml()).devices])


def look(data: Path | None) -> dict[str, Any]:
    """Return the facts of this node. data: the folder of the prepared data for the workers, if any are needed."""
    identity = identify()
    found = read_accelerators(nvml=load_nvml())
    return {
        "host": platform.node(),
        "boot_id": _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else None,
        "kernel": platform.release(),
        "code": identity.code_event["digest"],
        "packages": identity.packages_event["digest"],
        "installed": sorted(identity.packages),
        "torch": _version("torch"),
        "accelerators": usable([device.name for device in found.devices]),
        "driver": found.driver,
        "num_cores": len(os.sched_getaffinity(0)),
        "variables": passed_on(os.environ),
        "restarts": os.environ.get(RESTARTS, "0"),
        "data_dir": None if data is None else str(data),
        "data": None if data is None else _digest(data),
        "free_bytes": shutil.disk_usage(tempfile.gettempdir()).free,
        "num_marked": len(marked(f"{MARK}=")),
        "time_ns": time.time_ns(),
    }


def usable(names: list[str]) -> list[str]:
    """Return those accelerators that the environment lets a process use."""
    for variable in _LISTS:
        if (listed := os.environ.get(variable)) is not None:
            return names[: len([word for word in listed.split(",") if word.strip() not in ("", "-1")])]
    return names


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _digest(data: Path) -> str | None:
    """Return the digest of the prepared data set whose folder for the workers is `data`; None if it is not here."""
    try:
        return data_cache.read(data.parent, is_noted=False).digest if data.is_dir() else None
    except DataError:
        return None


def refusals(nodes: Mapping[str, Facts], num_devices: int, is_metered: bool) -> list[str]:
    """Return why these nodes cannot make a run together, a sentence each; the first is the referee's.

    nodes: the facts by the node's name in a sentence. num_devices: on each node.
    """
    (own, first), *others = nodes.items()
    found = [sentence for place, facts in nodes.items() for sentence in _alone(place, facts, num_devices)]
    for place, facts in others:
        if facts["code"] != first["code"]:
            found.append(f"{place}: its code of tta is not that of {own}; install the same version on both")
        elif facts["torch"] != first["torch"]:
            found.append(f"{place}: has torch {facts['torch']}, {own} has {first['torch']}; install the same on both")
        elif facts["packages"] != first["packages"]:
            found.append(f"{place}: its packages are not those of {own}: {_difference(facts, first)}")
        if facts["data"] is not None and first["data"] is not None and facts["data"] != first["data"]:
            found.append(
                f"{place}: the digest of its data is {facts['data'][:16]}…, that of {own} {first['data'][:16]}…; "
                "prepare the same data on both, or share the folder"
            )
        if sorted(facts["accelerators"]) != sorted(first["accelerators"]):
            found.append(f"{place}: has {_devices(facts)}, {own} has {_devices(first)}; use nodes of one kind")
        if is_metered and abs(facts["ahead_s"]) > MAX_CLOCK_S:
            found.append(
                f"{place}: its clock is {abs(facts['ahead_s']):.1f} s {_ahead(facts)} that of {own}; at most "
                f"{MAX_CLOCK_S:g} s are permitted where power is metered: synchronise the clocks (chronyc makestep)"
            )
    return found


def warnings(nodes: Mapping[str, Facts], num_devices: int) -> list[str]:
    """Return what is odd about these nodes and does not keep a run from being made, a sentence each."""
    (own, first), *others = nodes.items()
    found = []
    for place, facts in nodes.items():
        if shared := shared_cores(num_devices, len(facts["accelerators"]), facts["num_cores"]):
            found.append(f"{place}: {shared}")
        if facts["num_marked"]:
            found.append(f"{place}: {facts['num_marked']} processes of another run on several nodes are there")
    for place, facts in others:
        if facts["boot_id"] is not None and facts["boot_id"] == first["boot_id"]:
            found.append(f"{place}: is on the same machine as {own}")
        names = facts["variables"].keys() | first["variables"].keys()
        differing = sorted(name for name in names if facts["variables"].get(name) != first["variables"].get(name))
        if differing := [name for name in differing if name.startswith(_COMPARED)]:
            found.append(f"{place}: {_some(differing)} differ from those of {own}")
        if abs(facts["ahead_s"]) > MAX_CLOCK_S:
            found.append(f"{place}: its clock is {abs(facts['ahead_s']):.1f} s {_ahead(facts)} that of {own}")
    return found


def _alone(place: str, facts: Facts, num_devices: int) -> Iterator[str]:
    """Yield what is wrong with one node, whatever the others are."""
    if facts["data"] is None and facts["data_dir"] is not None:
        yield (
            f"{place}: has not the data in {printable(facts['data_dir'], 300)}; prepare them there (tta data prepare), "
            "or share the folder"
        )
    if facts["restarts"] != "0":
        yield (
            f"{place}: the scheduler has started this job again ({RESTARTS}={printable(facts['restarts'], 20)}); a run "
            "is not restarted: submit a new job, without requeueing"
        )
    if too_many := too_many_devices(num_devices, len(facts["accelerators"])):
        yield f"{place}: {too_many}"


def too_many_devices(num_devices: int, num_accelerators: int) -> str | None:
    """Return why a node has not that many devices; None if it has."""
    if num_accelerators and num_devices > num_accelerators:
        return f"--devices {num_devices}: it has {num_accelerators} accelerators that can be used"
    return None


def shared_cores(num_devices: int, num_accelerators: int, num_cores: int) -> str | None:
    """Return what `num_devices` means on a node without accelerators; None if it has some, or if one is asked for."""
    if num_accelerators or num_devices == 1:
        return None
    cores = f"{num_cores} {'core' if num_cores == 1 else 'cores'}"
    return f"no accelerator: --devices {num_devices} starts {num_devices} processes that share {cores}"


def _ahead(facts: Facts) -> str:
    return "ahead of" if facts["ahead_s"] > 0 else "behind"


def _devices(facts: Facts) -> str:
    return ", ".join(facts["accelerators"]) or "no accelerator"


def _difference(facts: Facts, first: Facts) -> str:
    """Return which packages only one of two nodes has."""
    only = sorted(set(facts["installed"]) - set(first["installed"]))
    missing = sorted(set(first["installed"]) - set(facts["installed"]))
    parts = [f"{what} {_some(names)}" for what, names in (("only it has", only), ("it has not", missing)) if names]
    return "; ".join(parts) or "the same names, with other files"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return printable(", ".join(names[:_SHOWN]) + more, 300)
