"""NVIDIA devices through NVML: the total-energy counter, and sampled power.

The two are known to disagree on some devices (ml-energy/zeus issue 181: 187 J against 327 J of the same idle device),
and a counter may exist without ever moving; so both are logged, and compared when they are integrated. A device is
identified by its UUID: two processes, or two node logs, that name one UUID meter one device. A device that is split
(MIG) can only be metered as a whole, which includes the energy of other users: it is refused.

Source: NVML API reference, nvmlDeviceGetTotalEnergyConsumption (mJ since the driver was loaded, Volta and later),
nvmlDeviceGetPowerUsage (mW; mean over one second on Ampere and later but GA100).
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any

from harness.errors import one_line, printable
from harness.log.power_format import MeterSpec

PERIOD_S = 0.2
_REFRESH_S = 0.1  # of the counter, about (ml.energy)
_AVERAGING_S = 1.0
_MILLI = 1e-3


def load_nvml() -> Any:
    """The module `pynvml` of nvidia-ml-py; None if it is not installed."""
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        return None


@dataclass(frozen=True, slots=True)
class _Device:
    handle: Any
    uuid: str
    has_counter: bool
    has_power: bool


class NvmlMeter:
    """The devices that CUDA_VISIBLE_DEVICES leaves to this run, or all of them."""

    name = "nvml"
    period_s = PERIOD_S

    def __init__(self, nvml: Any, visible: str | None = None) -> None:
        """nvml: the module `pynvml`; None if it is not installed. visible: as in CUDA_VISIBLE_DEVICES."""
        self._nvml = nvml
        self._visible = os.environ.get("CUDA_VISIBLE_DEVICES") if visible is None else visible
        self._devices: tuple[_Device, ...] = ()
        self._is_open = False
        self._reason = self._open()

    def probe(self) -> str | None:
        return self._reason

    def specs(self) -> tuple[MeterSpec, ...]:
        return tuple(
            MeterSpec(
                id=f"nvml:{device.uuid}:{what}",
                component="gpu",
                scope="board",
                meter_class="C" if what == "energy" else "D",
                kind="energy_j" if what == "energy" else "power_w",
                period_s=self.period_s,
                source=f"NVML, driver {self._driver}",
                device=device.uuid,
                averaging_s=_REFRESH_S if what == "energy" else _AVERAGING_S,
                resolution_j=_MILLI if what == "energy" else 0.0,
            )
            for device in self._devices
            for what, is_there in (("energy", device.has_counter), ("power", device.has_power))
            if is_there
        )

    def read(self) -> dict[str, float | None]:
        """Joules since the driver was loaded, and watts, by meter id; None if the device did not answer."""
        found: dict[str, float | None] = {}
        for device in self._devices:
            if device.has_counter:
                found[f"nvml:{device.uuid}:energy"] = self._value("nvmlDeviceGetTotalEnergyConsumption", device.handle)
            if device.has_power:
                found[f"nvml:{device.uuid}:power"] = self._value("nvmlDeviceGetPowerUsage", device.handle)
        return found

    def close(self) -> None:
        """Shut the library down."""
        if self._is_open:
            self._is_open = False
            self._nvml.nvmlShutdown()

    def _open(self) -> str | None:
        if self._nvml is None:
            return "nvidia-ml-py is not installed: pip install 'tta-harness[meters]'"
        try:
            self._nvml.nvmlInit()
            self._is_open = True
            self._driver = one_line(self._nvml.nvmlSystemGetDriverVersion())
            handles = [self._nvml.nvmlDeviceGetHandleByIndex(i) for i in range(self._nvml.nvmlDeviceGetCount())]
            uuids = [one_line(self._nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
            chosen = _chosen(uuids, self._visible)
            if isinstance(chosen, str):
                return chosen
            names = {one_line(self._nvml.nvmlDeviceGetName(handle)) for handle in handles}
            by_index = self._visible is not None and "GPU-" not in self._visible
            if by_index and len(names) > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
                return (
                    "CUDA numbers the fastest device first, NVML numbers by bus, and the devices differ: "
                    "set CUDA_DEVICE_ORDER=PCI_BUS_ID or list UUIDs in CUDA_VISIBLE_DEVICES"
                )
            for index in chosen:
                if self._is_split(handles[index]):
                    return f"{uuids[index]} is split (MIG), and only the whole device can be metered"
        except self._nvml.NVMLError as error:
            return f"NVML: {printable(error)}"
        self._devices = tuple(self._device(handles[index], uuids[index]) for index in chosen)
        if not self._devices:
            return "NVML sees no device"
        if silent := [device.uuid for device in self._devices if not device.has_counter and not device.has_power]:
            return f"{silent[0]} reports neither energy nor power"
        return None

    def _device(self, handle: Any, uuid: str) -> _Device:
        has_counter = self._value("nvmlDeviceGetTotalEnergyConsumption", handle) is not None
        return _Device(handle, uuid, has_counter, self._value("nvmlDeviceGetPowerUsage", handle) is not None)

    def _is_split(self, handle: Any) -> bool:
        try:
            return bool(self._nvml.nvmlDeviceGetMigMode(handle)[0])
        except self._nvml.NVMLError:
            return False  # a device that cannot be split

    def _value(self, function: str, handle: Any) -> float | None:
        try:
            return float(getattr(self._nvml, function)(handle)) * _MILLI
        except self._nvml.NVMLError:
            return None


def _chosen(uuids: list[str], visible: str | None) -> list[int] | str:
    """Indices of the devices that CUDA would use, or why they are not known.

    Source: CUDA C++ Programming Guide, CUDA_VISIBLE_DEVICES: indices or (prefixes of) UUIDs, and the list ends at the
    first one that is invalid.
    """
    if visible is None:
        return list(range(len(uuids)))
    found: list[int] = []
    for part in (part.strip() for part in visible.split(",")):
        if part.startswith("MIG-"):
            return f"CUDA_VISIBLE_DEVICES names {printable(part)!r}, a part of a device; only the whole can be metered"
        if part.isascii() and part.isdigit():
            matches = [int(part)]
        else:
            matches = [index for index, uuid in enumerate(uuids) if part and uuid.startswith(part)]
        if len(matches) != 1 or matches[0] >= len(uuids) or matches[0] in found:
            break
        found += matches
    return found or f"CUDA_VISIBLE_DEVICES is {printable(visible)!r}: no device is left"
