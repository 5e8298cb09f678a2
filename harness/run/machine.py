"""Reads the facts of a node from /proc and /sys. A fact that no file states is None; no file is required.

Everything is read below `root`, so that a test can supply its own machine. Addresses, serial numbers and the
host name are not read.
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
import shutil
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from harness.base.clock import Clock, MonotonicClock
from harness.errors import OutputError, printable
from harness.metering.meters.nvml import load_nvml
from harness.run.accelerators import read_accelerators
from harness.submission.system import Accelerators, ClockFacts, Interface, Machine, Processor, Storage, size

TRAINING_PACKAGES = ("torch", "torchvision", "torchaudio", "transformers", "datasets", "accelerate", "mlflow")
PACKAGES = (*TRAINING_PACKAGES, "omegaconf", "numpy")
CLOCK_READS = 4000  # a few tenths of a millisecond: enough for the step of any clock faster than 1 MHz

# Cores that servers have. Source: Linux, arch/arm64/include/asm/cputype.h.
ARM_PARTS = {"0xd0c": "Neoverse N1", "0xd40": "Neoverse V1", "0xd49": "Neoverse N2", "0xd4f": "Neoverse V2"}
NETWORK_FILESYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "9p", "virtiofs", "beegfs", "gpfs")


def look(folder: Path | None = None) -> Machine:
    """Return the facts of this machine. folder: where runs will be written; None: the current folder.

    Raises:
        OutputError: `folder` does not exist.
    """
    return read_host(folder or Path(), read_accelerators(nvml=load_nvml()))


def read_host(folder: Path, accelerators: Accelerators, root: Path = Path("/")) -> Machine:
    """Return the facts of the machine below `root`, with its `accelerators`. folder: where runs will be written.

    Raises:
        OutputError: `folder` does not exist.
    """
    memory = _fields(root / "proc" / "meminfo")
    release = _fields(root / "etc" / "os-release", "=")
    limit = _find(root / "proc/self/limits", r"^Max open files +(\d{1,18}) ")
    load = _find(root / "proc/loadavg", r"\A(\d{1,9}(?:\.\d+)?)")
    return Machine(
        processor=read_processor(root),
        memory_bytes=_kib(memory.get("MemTotal")),
        memory_available_bytes=_kib(memory.get("MemAvailable")),
        storage=read_storage(folder, root),
        interfaces=tuple(_interfaces(root)),
        accelerators=accelerators,
        clock=ClockFacts(
            source=_shown(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
            claimed_ns=MonotonicClock().resolution_ns,
            step_ns=smallest_step_ns(MonotonicClock()),
        ),
        os=_clean(release.get("PRETTY_NAME", "").strip("\"'")),
        kernel=platform.release(),
        architecture=platform.machine(),
        virtualisation=_virtualisation(root),
        container=_container(root),
        load_1min=float(load) if load else None,
        max_open_files=int(limit) if limit else None,
        python=platform.python_version(),
        packages={name: _version(name) for name in PACKAGES},
    )


def smallest_step_ns(clock: Clock, num_reads: int = CLOCK_READS) -> int | None:
    """Return the smallest step between successive reads of `clock`; None if it never moved."""
    reads = [clock.elapsed_ns() for _ in range(num_reads)]
    steps = [later - earlier for earlier, later in pairwise(reads) if later > earlier]
    return min(steps) if steps else None


def read_processor(root: Path) -> Processor:
    """Return the processors of the node; a fact that is missing hides no other."""
    cpus = root / "sys/devices/system/cpu"
    info = read_text(root / "proc" / "cpuinfo") or ""
    online = sorted(cpus.glob("cpu[0-9]*"))
    sockets = _distinct(cpu / "topology/physical_package_id" for cpu in online) - {"-1"}  # ARM without firmware tables
    cores = _distinct(cpu / "topology/thread_siblings_list" for cpu in online)
    threads = _num_listed(read_text(cpus / "online")) or len(re.findall(r"^processor\s*:", info, re.MULTILINE)) or None
    max_khz = read_number(cpus / "cpu0/cpufreq/cpuinfo_max_freq")
    now_mhz = _find(root / "proc/cpuinfo", r"^cpu MHz\s*:\s*(\d{1,6})")
    governors = sorted(_distinct(cpu / "cpufreq/scaling_governor" for cpu in online))
    return Processor(
        model=_model(info, root),
        num_sockets=len(sockets) or None,
        num_cores=len(cores) or None,
        num_threads=threads,
        num_allowed=_num_listed(_find(root / "proc/self/status", r"^Cpus_allowed_list:\s*(\S+)")),
        quota=cpu_quota(root),
        max_mhz=max_khz // 1000 if max_khz else int(now_mhz) if now_mhz else None,
        caches=tuple(_caches(online)),
        num_numa_nodes=len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or None,
        governor=_clean(", ".join(governors)),
        is_turbo=_is_turbo(cpus),
    )


def _model(info: str, root: Path) -> str | None:
    """Return the model name of x86, or the vendor and core codes of ARM: several with big and little cores."""
    names = dict.fromkeys(re.findall(r"^model name\s*:[ \t]*(\S.*)$", info, re.MULTILINE))
    if names:
        return _clean(" + ".join(names))
    vendors = re.findall(r"^CPU implementer\s*:[ \t]*(\S+)", info, re.MULTILINE)
    codes = re.findall(r"^CPU part\s*:[ \t]*(\S+)", info, re.MULTILINE)
    cores = [
        f"ARM {ARM_PARTS[code]}" if vendor == "0x41" and code in ARM_PARTS else f"implementer {vendor} part {code}"
        for vendor, code in dict.fromkeys(zip(vendors, codes, strict=False))
    ]
    return _clean(" + ".join(cores)) or _shown(root / "proc/device-tree/model")


def _caches(online: Iterable[Path]) -> Iterable[str]:
    """Yield each level and type with its number over all CPUs: "L1d 48 KiB x 2"."""
    found: dict[str, set[str]] = {}
    for cpu in online:
        for index in sorted(cpu.glob("cache/index[0-9]*")):
            level, kind, kib = (read_text(index / name) for name in ("level", "type", "size"))
            match = re.fullmatch(r"(\d{1,9})([KM]?)", kib or "")
            if level is None or kind is None or match is None:
                continue
            num_bytes = int(match.group(1)) << {"": 0, "K": 10, "M": 20}[match.group(2)]
            letter = {"Data": "d", "Instruction": "i"}.get(kind, "")
            shared = read_text(index / "shared_cpu_list") or cpu.name
            found.setdefault(f"L{printable(level, 3)}{letter} {size(num_bytes)}", set()).add(shared)
    return (f"{name} x {len(copies)}" for name, copies in sorted(found.items()))


def _is_turbo(cpus: Path) -> bool | None:
    no_turbo, boost = read_number(cpus / "intel_pstate/no_turbo"), read_number(cpus / "cpufreq/boost")
    if no_turbo is not None:
        return no_turbo == 0
    return None if boost is None else boost == 1


def cpu_quota(root: Path) -> float | None:
    """Return the CPU time that control groups grant this process, in CPUs; None if nothing limits it.

    The limit of a group also holds for all groups below it, so the smallest one on the path counts. Both versions
    are read. In a container the path may be the host's and the mount the container's, so the root counts too.

    Source: Linux, Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst.
    """
    quotas: list[float] = []
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for mount in {controllers, "cpu"} if controllers else {"", "unified"}:
            base = root / "sys/fs/cgroup" / mount
            for depth in range(len(parts) + 1):
                quotas += filter(None, [_quota(base.joinpath(*parts[:depth]))])
    return min(quotas, default=None)


def _quota(group: Path) -> float | None:
    text = read_text(group / "cpu.max")
    if text is None:
        text = " ".join(read_text(group / name) or "" for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
    match = re.fullmatch(r"(\d{1,15}) (\d{1,15})", text)
    return int(match.group(1)) / int(match.group(2)) if match and int(match.group(1)) and int(match.group(2)) else None


def read_storage(folder: Path, root: Path) -> Storage:
    """Return the storage that `folder` is on.

    Raises:
        OutputError: `folder` does not exist.
    """
    try:
        usage = shutil.disk_usage(folder)
    except OSError as error:
        raise OutputError(f"{printable(folder, 1000)}: cannot be examined: {error.strerror}") from None
    device, filesystem, source = _mount(folder.resolve(), root)
    kind = "memory" if filesystem in ("tmpfs", "ramfs") else "network" if filesystem in NETWORK_FILESYSTEMS else None
    for entry in (root / "sys/dev/block" / device, root / "sys/class/block" / Path(source).name) if not kind else ():
        block = entry.resolve()
        disk = next((place for place in (block, block.parent) if (place / "queue").is_dir()), None)
        if disk is not None:
            kind = _disk_kind(disk)
            break
    return Storage(str(folder.resolve()), kind, _clean(filesystem), usage.total, usage.free)


def _disk_kind(disk: Path) -> str | None:
    if disk.name.startswith("nvme"):
        return "NVMe SSD"
    if disk.name.startswith(("vd", "xvd")):
        return "virtual disk"  # its rotational flag says nothing about the disk below it
    rotational = read_number(disk / "queue/rotational")
    return None if rotational is None else "HDD" if rotational else "SSD"


def _mount(folder: Path, root: Path) -> tuple[str, str, str]:
    """Return (major:minor, file system, source) of the mount that contains `folder`; empty strings if none is listed.

    Of two mounts at one path the later one is on top.

    Source: proc_pid_mountinfo(5).
    """
    best, found = -1, ("", "", "")
    for line in (read_text(root / "proc/self/mountinfo") or "").splitlines():
        left, dash, right = line.partition(" - ")
        fields, tail = left.split(" "), right.split(" ")
        if not dash or len(fields) < 5 or len(tail) < 2:
            continue
        place = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), fields[4]))
        if folder.is_relative_to(place) and len(place.parts) >= best:
            best, found = len(place.parts), (fields[2], tail[0], tail[1])
    return found


def _interfaces(root: Path) -> Iterable[Interface]:
    """Yield the network hardware by name: interfaces with a device behind them, and InfiniBand ports."""
    for entry in sorted((root / "sys/class/net").glob("*")):
        if (entry / "device").exists():
            mbps = read_number(entry / "speed")  # -1 for a virtual device without one
            yield Interface(printable(entry.name, 40), mbps if mbps and mbps > 0 else None)
    for port in sorted((root / "sys/class/infiniband").glob("*/ports/*")):
        gbps = _find(port / "rate", r"\A(\d{1,6}(?:\.\d+)?) Gb/sec")
        if read_text(port / "link_layer") == "InfiniBand":
            name = printable(f"{port.parent.parent.name}/{port.name}", 40)
            yield Interface(name, round(float(gbps) * 1000) if gbps else None)


def _virtualisation(root: Path) -> str | None:
    flag = _find(root / "proc/cpuinfo", r"^flags\s*:.*\b(hypervisor)\b")
    kind = _shown(root / "sys/hypervisor/type")
    if not flag and not kind:
        return None
    board = root / "sys/class/dmi/id"
    vendor = " ".join(text for name in ("sys_vendor", "product_name") if (text := _shown(board / name)))
    return "virtual machine" + (f" ({vendor or kind})" if vendor or kind else "")


def _container(root: Path) -> str | None:
    for name, mark in (("docker", ".dockerenv"), ("podman", "run/.containerenv")):
        if (root / mark).exists():
            return name
    return _find(root / "proc/self/cgroup", r"(docker|kubepods|containerd|lxc|libpod)")


def _version(package: str) -> str | None:
    try:
        return _clean(importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return None


def read_text(path: Path) -> str | None:
    """Return the stripped text of a small file; None if it cannot be read, like many files in /sys."""
    try:
        with path.open("rb") as stream:
            # From 4 MiB on, the kernel refuses to read /proc/sys, whatever the size of the file.
            return stream.read(1 << 20).decode("utf-8", "replace").strip("\0 \t\r\n")
    except OSError:
        return None


def _find(path: Path, pattern: str) -> str | None:
    """Return the group of the first match of `pattern` in a file; None without a match."""
    match = re.search(pattern, read_text(path) or "", re.MULTILINE)
    return match.group(1) if match else None


def read_number(path: Path) -> int | None:
    text = read_text(path) or ""
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


def _fields(path: Path, mark: str = ":") -> dict[str, str]:
    pairs = (line.partition(mark) for line in (read_text(path) or "").splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _kib(text: str | None) -> int | None:
    match = re.fullmatch(r"([0-9]{1,15}) kB", text or "")
    return int(match.group(1)) << 10 if match else None


def _distinct(paths: Iterable[Path]) -> set[str]:
    return {text for path in paths if (text := read_text(path))}


def _num_listed(text: str | None) -> int | None:
    """Count the CPUs in a list of the kernel: "0-3,8" is 5."""
    total = 0
    for part in (text or "").split(","):
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        if match is None:
            return None
        total += int(match.group(2) or match.group(1)) - int(match.group(1)) + 1
    return total if total > 0 else None


def _clean(text: str | None) -> str | None:
    """Return one line of printable text; None if nothing is left."""
    return " ".join(printable(text or "").split()) or None


def _shown(path: Path) -> str | None:
    return _clean(read_text(path))
