"""AMD, Apple and Jetson devices through zeus, where a person has installed it; imported when asked for, never before.

Only its counters are taken, and differences are formed here. Where zeus sees no device it says 0 J without a word,
so a device that it does not list is a reason, not a zero.

Source: ml-energy/zeus, zeus.device.gpu: get_gpus(), GPU.getTotalEnergyConsumption() in mJ.
"""

from __future__ import annotations

import importlib
from typing import Any

from harness.errors import printable
from harness.power import MeterSpec

PERIOD_S = 1.0
_MILLI = 1e-3


def find_zeus() -> Any:
    """The module `zeus.device.gpu`; None if it is not installed."""
    try:
        return importlib.import_module("zeus.device.gpu")
    except ImportError:
        return None


class ZeusMeter:
    """The devices zeus lists, by their energy counters."""

    name = "zeus"
    period_s = PERIOD_S

    def __init__(self, gpu: Any) -> None:
        """`gpu` is what `find_zeus` returns."""
        self._devices: list[Any] = []
        self._names: list[str] = []
        self._reason = self._open(gpu)

    def probe(self) -> str | None:
        return self._reason

    def specs(self) -> tuple[MeterSpec, ...]:
        return tuple(
            MeterSpec(
                id=f"zeus:{index}:energy",
                component="gpu",
                scope="board",
                meter_class="C",
                kind="energy_j",
                period_s=self.period_s,
                source=f"zeus, {name}",
                device=f"zeus {index} {name}",
            )
            for index, name in enumerate(self._names)
        )

    def read(self) -> dict[str, float | None]:
        return {f"zeus:{index}:energy": self._joules(device) for index, device in enumerate(self._devices)}

    def close(self) -> None:
        """zeus ends with the process."""

    def _open(self, gpu: Any) -> str | None:
        if gpu is None:
            return "zeus is not installed: pip install zeus"
        try:
            devices = list(gpu.get_gpus().gpus)
            names = [printable(device.getName()) for device in devices]
        except gpu.ZeusBaseGPUError as error:
            return f"zeus: {printable(error, 200)}"
        if not devices:
            return "zeus sees no device"
        self._gpu, self._devices, self._names = gpu, devices, names
        return None if self._joules(devices[0]) is not None else f"zeus: {names[0]} has no energy counter"

    def _joules(self, device: Any) -> float | None:
        try:
            return float(device.getTotalEnergyConsumption()) * _MILLI
        except self._gpu.ZeusBaseGPUError:
            return None
