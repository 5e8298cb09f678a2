"""AMD accelerators and the chips of Apple and Jetson, through zeus if it is installed; imported only when requested.

Only its counters are used, and differences are computed here. If zeus sees no device, it silently returns 0 J; here
that is a reason, not a zero. NVIDIA devices are refused: the meter `nvml` reads them itself, and two names for one
device would be added up. A Jetson's counter is not a real counter: zeus polls the power and sums it up (class D).

Source: ml-energy/zeus 0.16.0. zeus.device.gpu: get_gpus() prefers NVML to AMD SMI; GPU.get_total_energy_consumption()
in mJ since the driver was loaded; the odd half of an MI250 has none, its energy is in the even half's.
zeus.device.soc: get_soc(), SoC.get_total_energy_consumption(), fields in mJ.
"""

from __future__ import annotations

import importlib
import queue
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.errors import printable
from harness.log.power_format import Component, Kind, MeterClass, MeterSpec, Scope

PERIOD_S = 1.0
_MILLI = 1e-3
# Field of a measurement of a system on a chip -> component. The fields of single cores and clusters are parts of these.
_APPLE: dict[str, Component] = {
    "cpu_total_mj": "cpu_package",
    "gpu_mj": "gpu",
    "ane_mj": "gpu",  # the neural engine: another accelerator
    "dram_mj": "dram",
}
_JETSON_WHOLE = "total_energy_mj"
_JETSON_PARTS: dict[str, Component] = {"cpu_energy_mj": "cpu_package", "gpu_energy_mj": "gpu"}

Import = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class _Part:
    """One metered component. read: its millijoules."""

    spec: MeterSpec
    read: Callable[[], float | None]


class ZeusMeter:
    """What zeus sees of this node."""

    name = "zeus"
    period_s = PERIOD_S

    def __init__(self, load: Import = importlib.import_module) -> None:
        """load: imports a module by name; a double in tests."""
        self._parts: list[_Part] = []
        self._errors: tuple[type[Exception], ...] = (OSError, ValueError, RuntimeError, queue.Empty)
        self._reason = self._open(load)
        if self._reason is not None:
            self._parts = []

    def probe(self) -> str | None:
        return self._reason

    def specs(self) -> tuple[MeterSpec, ...]:
        return tuple(part.spec for part in self._parts)

    def read(self) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        for part in self._parts:
            try:
                value = part.read()
            except self._errors:
                value = None
            found[part.spec.id] = value * _MILLI if isinstance(value, int | float) and value >= 0 else None
        return found

    def close(self) -> None:
        """Nothing to close: zeus ends with the process."""

    def _open(self, load: Import) -> str | None:
        try:
            base, gpu = load("zeus.device.exception"), load("zeus.device.gpu")
        except ImportError:
            return "zeus is not installed: pip install zeus"
        self._errors += (base.ZeusBaseGPUError, base.ZeusBaseSoCError)
        try:
            devices = list(gpu.get_gpus().gpus)
        except gpu.ZeusGPUInitError as error:  # neither NVML nor AMD SMI
            return self._open_chip(load, str(error))
        except self._errors as error:
            return f"zeus: {printable(error, 200)}"
        return self._open_accelerators(devices)

    def _open_accelerators(self, devices: list[Any]) -> str | None:
        if not devices:
            return "zeus sees no device"
        if any("nvidia" in type(device).__name__.lower() for device in devices):
            return "zeus sees NVIDIA devices, which the meter nvml reads: --meter nvml"
        if not hasattr(devices[0], "get_total_energy_consumption"):
            return "this version of zeus has no get_total_energy_consumption: pip install -U zeus"
        for index, device in enumerate(devices):
            try:
                name = printable(device.get_name())
                has_counter = device.supports_get_total_energy_consumption()
            except self._errors as error:
                return f"zeus: device {index}: {printable(error, 200)}"
            is_second_half = "MI250" in name and index % 2 == 1  # the first half's counter has its energy
            if not has_counter and not is_second_half:
                return f"zeus: {name} ({index}) has no energy counter that agrees with its power"
            if has_counter:
                self._add(f"{index}:energy", "gpu", "board", "C", name, device.get_total_energy_consumption)
        return self._judge()

    def _open_chip(self, load: Import, why_no_gpu: str) -> str | None:
        try:
            chip = load("zeus.device.soc").get_soc()
            measured = chip.get_total_energy_consumption()
        except ImportError:
            return f"zeus: {printable(why_no_gpu, 200)}"
        except self._errors as error:
            return f"zeus: {printable(why_no_gpu, 150)}; {printable(error, 150)}"
        is_jetson = hasattr(measured, _JETSON_WHOLE)
        has_whole = getattr(measured, _JETSON_WHOLE, None) is not None
        fields: dict[str, Component] = _JETSON_PARTS if is_jetson else _APPLE
        if has_whole:
            fields = {_JETSON_WHOLE: "node"}
        for field, component in fields.items():
            if getattr(measured, field, None) is not None:
                scope: Scope = "module" if is_jetson else "package"

                def read(field: str = field) -> float | None:
                    value: float | None = getattr(chip.get_total_energy_consumption(), field)
                    return value

                self._add(field.removesuffix("_mj"), component, scope, "D" if is_jetson else "C", "this chip", read)
        return self._judge()

    def _judge(self) -> str | None:
        if not self._parts:
            return "zeus sees no energy counter here"
        failed = [name for name, value in self.read().items() if value is None]
        return f"{failed[0]} cannot be read" if failed else None

    def _add(
        self,
        what: str,
        component: Component,
        scope: Scope,
        meter_class: MeterClass,
        name: str,
        read: Callable[[], float | None],
    ) -> None:
        kind: Kind = "energy_j"
        spec = MeterSpec(
            id=f"zeus:{what}",
            component=component,
            scope=scope,
            meter_class=meter_class,
            kind=kind,
            period_s=self.period_s,
            source=f"zeus, {name}",
            device=f"zeus {what} {name}",
            resolution_j=_MILLI,
        )
        self._parts.append(_Part(spec, read))
