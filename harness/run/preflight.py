"""What `tta doctor` reports about a machine before a run, with advice where something would disturb one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import printable
from harness.log.isolation import gaps
from harness.metering.catalog import Survey
from harness.submission.system import Machine, Processor, size, speed, unknown_fields

# A fifth of the CPUs taken by others slows a run on all of them by about as much.
BUSY_FRACTION = 0.2
# The prepared data sets of the standard suite, with room for logs and checkpoints.
LOW_DISK_BYTES = 10 << 30
# PyTorch's data loaders hold several descriptors per worker and batch; 1024 is the default of every distribution.
MIN_OPEN_FILES = 1024
# The clock must resolve blocks of a few milliseconds.
MAX_CLOCK_STEP_NS = 100_000


@dataclass(frozen=True, slots=True)
class Line:
    """One fact of the machine. advice: what to do about it; None if nothing is wrong."""

    name: str
    value: str
    advice: str | None = None


Report = dict[str, list[Line]]


def examine(
    machine: Machine, meters: Mapping[str, Survey], description: Mapping[str, str], isolation: Mapping[str, Any]
) -> Report:
    """Return the report by section.

    meters: what each meter would measure here, or why it cannot. isolation: the facts of the strongest form here.
    """
    unknown = unknown_fields(description)
    return {
        "processor": _processor(machine.processor, machine.load_1min),
        "memory and storage": _memory_and_storage(machine),
        "network": _network(machine),
        "accelerators": _accelerators(machine),
        "system": [
            Line("operating system", machine.os or "unknown"),
            Line("kernel", f"{machine.kernel} ({machine.architecture})"),
            Line("virtualisation", machine.virtualisation or "none detected"),
            Line("container", machine.container or "none detected"),
            _open_files(machine.max_open_files),
            _isolation(isolation),
        ],
        "clock": [_clock(machine)],
        "software": [
            Line("python", machine.python),
            *(Line(name, version or "not installed") for name, version in machine.packages.items()),
            Line("to train", "possible")
            if machine.packages.get("torch")
            else Line("to train", "not possible", "install the training extra: pip install 'tta-harness[train]'"),
        ],
        "meters": [Line(name, found.summary) for name, found in meters.items()],
        "system description": [
            Line("name", description["system_name"]),
            Line("status", description["status"]),
            Line(
                "to fill in by hand",
                ", ".join(unknown) or "nothing",
                "a check reports each placeholder; write the file with --out and edit it" if unknown else None,
            ),
        ],
    }


def _processor(processor: Processor, load_1min: float | None) -> list[Line]:
    usable, threads = processor.num_usable, processor.num_threads
    lines = [
        Line("model", processor.model or "unknown"),
        Line(
            "sockets, cores, threads",
            ", ".join(_number(count) for count in (processor.num_sockets, processor.num_cores, threads)),
        ),
        Line("frequency", f"{processor.max_mhz} MHz" if processor.max_mhz else "unknown"),
        Line("caches", ", ".join(processor.caches) or "unknown"),
        Line("NUMA nodes", _number(processor.num_numa_nodes)),
    ]
    is_limited = usable is not None and threads is not None and usable < threads
    lines.append(
        Line(
            "usable CPUs",
            "unknown" if usable is None else f"{usable:g} of {_number(threads)}",
            "a quota or an affinity withholds the rest: a result is for the usable CPUs, so mention it in hw_notes"
            if is_limited
            else None,
        )
    )
    governor = processor.governor
    lines.append(
        Line(
            "frequency governor",
            governor or "not visible",
            "the frequency follows the load and times vary more; choose 'performance', or mention it in sw_notes"
            if governor not in (None, "performance")
            else None,
        )
    )
    lines.append(Line("turbo", {None: "not visible", True: "on", False: "off"}[processor.is_turbo]))
    is_busy = load_1min is not None and load_1min > BUSY_FRACTION * (usable or threads or 1)
    lines.append(
        Line(
            "load, last minute",
            "unknown" if load_1min is None else f"{load_1min:g}",
            "the machine is busy: other programs slow a run down; wait, or stop them" if is_busy else None,
        )
    )
    return lines


def _memory_and_storage(machine: Machine) -> list[Line]:
    storage = machine.storage
    kind = " on ".join(text for text in (storage.filesystem, storage.kind) if text)
    return [
        Line("memory", size(machine.memory_bytes) if machine.memory_bytes else "unknown"),
        Line("memory available", size(machine.memory_available_bytes) if machine.memory_available_bytes else "unknown"),
        Line("working folder", printable(storage.folder)),
        Line("storage", f"{kind or 'unknown'}, {size(storage.capacity_bytes)}"),
        Line(
            "free",
            size(storage.free_bytes),
            f"less than {size(LOW_DISK_BYTES)}: the standard suite's data may not fit"
            if storage.free_bytes < LOW_DISK_BYTES
            else None,
        ),
    ]


def _network(machine: Machine) -> list[Line]:
    lines = []
    for link in machine.interfaces:
        lines.append(Line(link.name, speed(link.speed_mbps) if link.speed_mbps else "speed unknown"))
    return lines or [Line("interfaces", "no hardware found")]


def _accelerators(machine: Machine) -> list[Line]:
    found = machine.accelerators
    lines = []
    for index, device in enumerate(found.devices):
        memory = size(device.memory_bytes) if device.memory_bytes else "memory unknown"
        lines.append(
            Line(
                str(index),
                ", ".join(text for text in (device.name, memory, device.bus) if text),
                f"{device.num_processes} processes are using it now" if device.num_processes else None,
            )
        )
    if found.driver:
        lines.append(Line("driver", found.driver))
    if found.reason:
        value = "details unknown" if found.devices else "unknown"
        advice = f"{found.reason}; install the driver and nvidia-ml-py, or fill in the fields by hand"
        lines.append(Line("seen", value, advice))
    return lines or [Line("seen", "none")]


def _open_files(limit: int | None) -> Line:
    advice = f"fewer than {MIN_OPEN_FILES:,} can stop a data loader; raise the limit: ulimit -n {MIN_OPEN_FILES}"
    return Line("open files allowed", _number(limit), advice if limit is not None and limit < MIN_OPEN_FILES else None)


def _isolation(facts: Mapping[str, Any]) -> Line:
    found = list(gaps(facts))
    value = f"full, by {facts['means']}" if not found else f"by {facts['means']}: {', '.join(found)}"
    reasons = "; ".join(f"{means}: {reason}" for means, reason in facts["reasons"].items())
    advice = f"not every ruleset takes results from it; for full isolation install bubblewrap ({reasons})"
    return Line("isolation of a worker", value, advice if found else None)


def _clock(machine: Machine) -> Line:
    clock = machine.clock
    value = f"{clock.claimed_ns} ns claimed, {_number(clock.step_ns)} ns observed, source {clock.source or 'unknown'}"
    is_coarse = clock.step_ns is None or clock.step_ns > MAX_CLOCK_STEP_NS
    return Line("monotonic clock", value, "too coarse to time a block; check the clock source" if is_coarse else None)


def lines_with_advice(report: Report) -> list[Line]:
    """Return the lines that need attention."""
    return [line for lines in report.values() for line in lines if line.advice is not None]


def _number(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"
