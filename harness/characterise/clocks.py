"""What slows a machine down while it is measured: clocks, throttling, stolen time, as far as the machine says so.

Read before and after a measurement; a counter that grew in between is a reason. What the kernel or the driver does not
show is None, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from harness.run.machine import read_number, read_text

# Bits of the reasons for which a clock is below its maximum. Source: NVML API reference, "Clock Event Reasons".
REASONS = {
    0x1: "idle",
    0x2: "clocks set by an application",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
}
HARMLESS = frozenset({"idle", "clocks set by an application", "sync boost", "display clock setting"})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeviceState:
    """One accelerator now. reasons: why its clock is below the maximum."""

    name: str
    sm_mhz: int | None
    max_sm_mhz: int | None
    memory_mhz: int | None
    temperature_c: int | None
    power_limit_w: float | None
    reasons: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class State:
    """The machine now.

    host_mhz: the mean over its CPUs. throttled: how often cores have been throttled for heat since boot. stolen_s: CPU
    time that a hypervisor gave to others since boot; busy_s: that was used, by anybody.
    """

    host_mhz: float | None
    governor: str | None
    throttled: int | None
    stolen_s: float | None
    busy_s: float | None
    devices: tuple[DeviceState, ...]


def read_state(root: Path = Path("/"), nvml: Any = None) -> State:
    """Read the state of this machine, or of the one below `root`. nvml: the module `pynvml`; None: not installed."""
    cpus = root / "sys/devices/system/cpu"
    speeds = [float(value) for value in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", _text(root / "proc/cpuinfo"), re.M)]
    counts = [read_number(path) for path in sorted(cpus.glob("cpu[0-9]*/thermal_throttle/core_throttle_count"))]
    known = [count for count in counts if count is not None]
    stolen_s, busy_s = _times(_text(root / "proc/stat"))
    return State(
        host_mhz=sum(speeds) / len(speeds) if speeds else None,
        governor=read_text(cpus / "cpu0/cpufreq/scaling_governor"),
        throttled=sum(known) if known else None,
        stolen_s=stolen_s,
        busy_s=busy_s,
        devices=() if nvml is None else _devices(nvml),
    )


def _text(path: Path) -> str:
    return read_text(path) or ""


def _times(stat: str) -> tuple[float | None, float | None]:
    """Stolen and busy seconds of all CPUs, in the hundredths of which /proc/stat counts. Source: proc_stat(5)."""
    match = re.search(r"^cpu +(\d+(?: \d+){7,})", stat, re.MULTILINE)
    if match is None:
        return None, None
    user, nice, system, _, _, irq, softirq, steal = (int(part) for part in match.group(1).split()[:8])
    return steal / 100, (user + nice + system + irq + softirq) / 100


def _devices(nvml: Any) -> tuple[DeviceState, ...]:
    def optional(call: Callable[..., T], *arguments: Any) -> T | None:
        """None for what the device does not support."""
        try:
            return call(*arguments)
        except nvml.NVMLError:
            return None

    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        found = []
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            limit = optional(nvml.nvmlDeviceGetPowerManagementLimit, handle)
            bits = optional(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
            found.append(
                DeviceState(
                    name=str(nvml.nvmlDeviceGetName(handle)),
                    sm_mhz=optional(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
                    max_sm_mhz=optional(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
                    memory_mhz=optional(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
                    temperature_c=optional(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
                    power_limit_w=None if limit is None else limit / 1e3,
                    reasons=None if bits is None else reasons_of(bits),
                )
            )
        return tuple(found)
    except nvml.NVMLError:
        return ()
    finally:
        nvml.nvmlShutdown()


def reasons_of(bits: int) -> tuple[str, ...]:
    """The reasons whose bits are set."""
    return tuple(name for bit, name in REASONS.items() if bits & bit)


def disturbances(before: State, after: State) -> list[str]:
    """What slowed the machine down between two readings, in words."""
    found = []
    if None not in (before.throttled, after.throttled) and (grown := after.throttled - before.throttled) > 0:  # type: ignore[operator]
        found.append(f"cores were throttled for heat {grown} times while they were measured")
    times = (before.stolen_s, after.stolen_s, before.busy_s, after.busy_s)
    if all(value is not None for value in times):
        stolen = after.stolen_s - before.stolen_s  # type: ignore[operator]
        busy = after.busy_s - before.busy_s  # type: ignore[operator]
        if stolen > 0.02 * (stolen + busy):
            share = stolen / (stolen + busy)
            found.append(f"the hypervisor gave {100 * share:.0f} % of the CPU time to other machines ({stolen:.1f} s)")
    for index, device in enumerate(after.devices):
        if reasons := [name for name in device.reasons or () if name not in HARMLESS]:
            found.append(f"accelerator {index} is slowed down: {', '.join(reasons)}")
    return found


def as_record(state: State) -> Mapping[str, Any]:
    """The state as JSON has it."""
    return asdict(state)
