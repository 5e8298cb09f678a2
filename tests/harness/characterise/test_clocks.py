"""What slows a machine down, read from files of another machine and from a driver that is scripted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from harness.characterise.clocks import DeviceState, State, disturbances, read_state, reasons_of


def machine(root: Path, steal: int = 500, throttled: int = 3) -> Path:
    """The files of a host with two CPUs."""
    files = {
        "proc/cpuinfo": "processor : 0\ncpu MHz : 2000.0\n\nprocessor : 1\ncpu MHz : 3000.0\n",
        "proc/stat": f"cpu  100 0 300 9000 50 10 90 {steal} 0 0\ncpu0 1 2 3\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": f"{throttled}\n",
        "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": "4\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_state_of_a_host(tmp_path: Path) -> None:
    """Clocks are the mean of the CPUs, counts their sum; /proc/stat counts hundredths of seconds."""
    assert read_state(machine(tmp_path)) == State(2500.0, "powersave", 7, 5.0, 5.0, ())


def test_what_no_file_says_is_unknown(tmp_path: Path) -> None:
    state = read_state(tmp_path)

    assert state == State(None, None, None, None, None, ())
    assert disturbances(state, state) == []


def test_counters_that_grew_are_reasons(tmp_path: Path) -> None:
    before = read_state(machine(tmp_path))
    after = read_state(machine(tmp_path, steal=1500, throttled=5))

    assert disturbances(before, after) == [
        "cores were throttled for heat 2 times while they were measured",
        "the hypervisor gave 100 % of the CPU time to other machines (10.0 s)",
    ]
    assert disturbances(after, after) == []


class NvmlError(Exception):
    pass


def nvml(bits: int) -> Any:
    """A driver with one device, which does not know its power limit."""

    def refused(handle: object) -> int:
        raise NvmlError

    return SimpleNamespace(
        NVMLError=NvmlError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda handle: "Device",
        nvmlDeviceGetClockInfo=lambda handle, kind: 1000 * kind,
        nvmlDeviceGetMaxClockInfo=lambda handle, kind: 1980,
        nvmlDeviceGetTemperature=lambda handle, kind: 83,
        nvmlDeviceGetPowerManagementLimit=refused,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: bits,
    )


def test_device_that_is_slowed_down(tmp_path: Path) -> None:
    """A power cap and heat are reasons to say so; idling and application clocks are not."""
    state = read_state(tmp_path, nvml(0x1 | 0x4 | 0x20))

    assert state.devices == (
        DeviceState("Device", 1000, 1980, 2000, 83, None, ("idle", "power cap", "software thermal slowdown")),
    )
    assert disturbances(state, state) == ["accelerator 0 is slowed down: power cap, software thermal slowdown"]
    calm = read_state(tmp_path, nvml(0x1 | 0x2))
    assert disturbances(calm, calm) == []


def test_driver_that_does_not_answer_has_no_devices(tmp_path: Path) -> None:
    def refused() -> None:
        raise NvmlError

    broken = nvml(0)
    broken.nvmlInit = refused
    assert read_state(tmp_path, broken).devices == ()


def test_every_bit_has_its_reason() -> None:
    assert reasons_of(0) == ()
    assert reasons_of(0x40 | 0x80) == ("hardware thermal slowdown", "hardware power brake")
