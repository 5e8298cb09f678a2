"""Reads which accelerators a node has: from NVML if its Python binding is installed, otherwise from the kernel.

A device that only the PCI bus knows makes the answer "unknown" instead of "none".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import one_line, printable
from harness.submission.system import Accelerator, Accelerators

NVIDIA = "0x10de"
AMD = "0x1002"
VENDORS = {NVIDIA: "NVIDIA", AMD: "AMD", "0x8086": "Intel", "0x1da3": "Habana", "0x1ae0": "Google"}

T = TypeVar("T")


def read_accelerators(root: Path = Path("/"), nvml: Any = None) -> Accelerators:
    """Return the accelerators of this node. nvml: the module `pynvml`; None reads the files of the kernel instead."""
    reason = "nvidia-ml-py is not installed"
    if nvml is not None:
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            reason = f"NVML: {printable(error)}"
        else:
            try:
                return _from_nvml(nvml)
            except nvml.NVMLError as error:
                reason = f"NVML: {printable(error)}"
            finally:
                nvml.nvmlShutdown()
    devices = _from_driver(root)
    version = _line(root / "sys/module/nvidia/version")
    if devices:
        return Accelerators(devices, version, f"{reason}, so only their names are known")
    seen = _on_pci_bus(root)
    if not seen:
        return Accelerators((), version, None)
    return Accelerators((), version, f"on the PCI bus: {', '.join(seen)}; {reason}, and no driver names them")


def _from_nvml(nvml: Any) -> Accelerators:
    def optional(call: Callable[..., T], *arguments: Any) -> T | None:
        """Return None for what the device does not support; virtual devices support little."""
        try:
            return call(*arguments)
        except nvml.NVMLError:
            return None

    devices = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        memory = optional(nvml.nvmlDeviceGetMemoryInfo, handle)
        generation = optional(nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle)
        width = optional(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle)
        links = [optional(nvml.nvmlDeviceGetNvLinkState, handle, link) for link in range(nvml.NVML_NVLINK_MAX_LINKS)]
        processes = optional(nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        devices.append(
            Accelerator(
                name=one_line(nvml.nvmlDeviceGetName(handle)),
                memory_bytes=memory.total if memory is not None else None,
                bus=f"PCIe gen {generation} x{width}" if generation and width else None,
                max_mhz=optional(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
                num_links=links.count(1),
                num_processes=None if processes is None else len(processes),
            )
        )
    return Accelerators(tuple(devices), one_line(nvml.nvmlSystemGetDriverVersion()))


def _from_driver(root: Path) -> tuple[Accelerator, ...]:
    """Read the names that the NVIDIA kernel module lists."""
    names = []
    for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        match = re.search(r"^Model:\s*(\S.*)$", _read(path), re.MULTILINE)
        names.append(one_line(match.group(1)) if match else "NVIDIA, model unknown")
    return tuple(Accelerator(name) for name in names)


def _on_pci_bus(root: Path) -> list[str]:
    """Count the PCI devices that may be accelerators by vendor: "2 x NVIDIA".

    These are 3D controllers (0x0302), processing accelerators (0x12), NVIDIA's display controllers and AMD's "other"
    display controllers (0x0380), the class that Instinct cards report.

    Source: PCI Code and ID Assignment Specification, class codes.
    """
    found: dict[str, int] = {}
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        kind, vendor = _line(device / "class") or "", _line(device / "vendor") or ""
        is_display = kind.startswith("0x03") and (vendor == NVIDIA or (vendor == AMD and kind.startswith("0x0380")))
        if kind.startswith(("0x0302", "0x12")) or is_display:
            name = VENDORS.get(vendor, f"vendor {vendor or 'unknown'}")
            found[name] = found.get(name, 0) + 1
    return [f"{count} x {name}" for name, count in found.items()]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _line(path: Path) -> str | None:
    return one_line(_read(path).strip()) or None
