"""The NVML meter on a double of the library: devices, what they support, and which of them are this run's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from harness.metering.meters.nvml import NvmlMeter


class NVMLError(Exception):
    """The library's error: not supported, lost, no permission."""


@dataclass
class Device:
    uuid: str
    name: str = "H100"
    energy_mj: float | None = 5_000.0
    power_mw: float | None = 300_000.0
    mig: int | None = 0


class Nvml:
    """The functions that the meter calls, on devices of the test."""

    NVMLError = NVMLError

    def __init__(self, *devices: Device, fails: str | None = None) -> None:
        self.devices = list(devices)
        self.fails = fails
        self.num_open = 0

    def nvmlInit(self) -> None:
        if self.fails:
            raise NVMLError(self.fails)
        self.num_open += 1

    def nvmlShutdown(self) -> None:
        self.num_open -= 1

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"570.1"

    def nvmlDeviceGetCount(self) -> int:
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Device:
        return self.devices[index]

    def nvmlDeviceGetUUID(self, handle: Device) -> str:
        return handle.uuid

    def nvmlDeviceGetName(self, handle: Device) -> str:
        return handle.name

    def nvmlDeviceGetMigMode(self, handle: Device) -> list[int]:
        return [self._supported(handle.mig), 0]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Device) -> float:
        return self._supported(handle.energy_mj)

    def nvmlDeviceGetPowerUsage(self, handle: Device) -> float:
        return self._supported(handle.power_mw)

    @staticmethod
    def _supported(value: Any) -> Any:
        if value is None:
            raise NVMLError("Not Supported")
        return value


A, B = "GPU-aaaa-1", "GPU-bbbb-2"


def test_counter_and_power_are_read_side_by_side() -> None:
    """Both have an id of their own and the device's UUID; the counter is class C, sampled power class D. Closing twice
    shuts the library down once."""
    nvml = Nvml(Device(A))
    meter = NvmlMeter(nvml, visible="0")

    specs = {spec.id: spec for spec in meter.specs()}

    assert meter.probe() is None
    assert meter.read() == {f"nvml:{A}:energy": 5.0, f"nvml:{A}:power": 300.0}
    assert [spec.meter_class for spec in specs.values()] == ["C", "D"]
    assert {spec.device for spec in specs.values()} == {A}
    meter.close()
    meter.close()
    assert nvml.num_open == 0


def test_device_without_a_counter_has_its_power_only() -> None:
    """Before Volta, and on some virtual devices; that it cannot say whether it is split is no reason."""
    meter = NvmlMeter(Nvml(Device(A, energy_mj=None, mig=None)), visible="0")

    assert meter.probe() is None
    assert [spec.meter_class for spec in meter.specs()] == ["D"]
    assert meter.read() == {f"nvml:{A}:power": 300.0}


def test_device_that_reports_nothing_is_a_reason() -> None:
    """No counter and no power: it cannot be left out silently."""
    meter = NvmlMeter(Nvml(Device(A), Device(B, energy_mj=None, power_mw=None)), visible="0,1")

    assert meter.probe() == f"{B} reports neither energy nor power"


def test_reading_that_fails_is_none() -> None:
    """A device that is temporarily lost."""
    device = Device(A)
    meter = NvmlMeter(Nvml(device), visible="0")
    device.energy_mj = None

    assert meter.read() == {f"nvml:{A}:energy": None, f"nvml:{A}:power": 300.0}


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        (None, [A, B]),
        ("0", [A]),
        ("1,0", [B, A]),
        ("1,7,0", [B]),  # CUDA's list ends at the first that is invalid
        (B, [B]),
        ("GPU-bb", [B]),
        ("0,0", [A]),
    ],
)
def test_visible_devices_are_those_of_cuda(
    visible: str | None, uuids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The devices of other users are not this run's energy."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    meter = NvmlMeter(Nvml(Device(A), Device(B)), visible=visible)

    assert [spec.device for spec in meter.specs() if spec.meter_class == "C"] == uuids


@pytest.mark.parametrize(
    ("nvml", "visible", "reason"),
    [
        (None, None, "nvidia-ml-py is not installed"),
        (Nvml(fails="Driver Not Loaded"), None, "NVML: Driver Not Loaded"),
        (Nvml(), "0", "no device is left"),
        (Nvml(Device(A)), "", "no device is left"),
        (Nvml(Device(A)), "-1", "no device is left"),
        (Nvml(Device(A), Device(A + "2")), "GPU-aaaa", "no device is left"),
        (Nvml(Device(A)), "MIG-1234", "a part of a device"),
        (Nvml(Device(A, mig=1)), "0", "is split (MIG)"),
        (Nvml(Device(A), Device(B, name="T4")), "0", "CUDA_DEVICE_ORDER=PCI_BUS_ID"),
    ],
)
def test_what_cannot_be_metered_is_a_reason(
    nvml: Nvml | None, visible: str | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in one sentence, and without any number."""
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    meter = NvmlMeter(nvml, visible=visible)

    assert reason in str(meter.probe())
    assert meter.read() == {}
    meter.close()
    assert nvml is None or nvml.num_open == 0
