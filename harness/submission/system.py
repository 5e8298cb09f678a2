"""Facts about a machine, and MLPerf's system description made from them. Pure; `harness.run.machine` reads the facts.

None means "could not be determined", never "there is none".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.cost.price_book import PRICE_KEY
from harness.errors import UsageError, printable, unknown_name
from harness.log.events import digest_of
from harness.submission.layout import NAME_PATTERN

# MLPerf's field names in its own order. Source: mlperf_logging, system_desc_checker.
FIELDS = (
    "submitter",
    "division",
    "status",
    "system_name",
    "number_of_nodes",
    "host_processors_per_node",
    "host_processor_model_name",
    "host_processor_core_count",
    "host_processor_vcpu_count",
    "host_processor_frequency",
    "host_processor_caches",
    "host_processor_interconnect",
    "host_memory_capacity",
    "host_storage_type",
    "host_storage_capacity",
    "host_networking",
    "host_networking_topology",
    "host_memory_configuration",
    "accelerators_per_node",
    "accelerator_model_name",
    "accelerator_host_interconnect",
    "accelerator_frequency",
    "accelerator_on-chip_memories",
    "accelerator_memory_configuration",
    "accelerator_memory_capacity",
    "accelerator_interconnect",
    "accelerator_interconnect_topology",
    "cooling",
    "hw_notes",
    "framework",
    "other_software_stack",
    "operating_system",
    "sw_notes",
)
# `tta`'s own fields: watts of one whole node, idle and under full load, as declared.
IDLE_POWER_KEY, MAX_POWER_KEY = "tta_idle_power_w", "tta_max_power_w"
# What the machine reached in single operations, from `tta preflight`: an object, unlike all others.
PREFLIGHT_KEY = "tta_preflight"
OPTIONAL_FIELDS = (IDLE_POWER_KEY, MAX_POWER_KEY, PRICE_KEY, PREFLIGHT_KEY)
# What says who submits a system and for what, what is in words, and what was measured: two systems may differ in it.
_PASSING = frozenset({"submitter", "division", "status", "system_name", "hw_notes", "sw_notes", PREFLIGHT_KEY})
# Short words for the four statuses that MLPerf accepts since 4.1.
STATUSES = {
    "onprem": "Available on-premise",
    "cloud": "Available cloud",
    "preview": "Preview",
    "rdi": "Research, Development, or Internal (RDI)",
}
UNNAMED, UNKNOWN, NONE = "unnamed", "unknown", "none"


@dataclass(frozen=True, slots=True)
class Processor:
    """The processors of one node.

    num_cores, num_threads: online, over all sockets. num_allowed: CPUs that this process may be scheduled on.
    quota: CPU time that a control group grants, in CPUs; None if it is not limited.
    max_mhz: highest frequency if the kernel reports it, otherwise the current one. caches: "L2 1 MiB x 2".
    governor: frequency governors in use. is_turbo: whether boost is on.
    """

    model: str | None
    num_sockets: int | None
    num_cores: int | None
    num_threads: int | None
    num_allowed: int | None
    quota: float | None
    max_mhz: int | None
    caches: tuple[str, ...]
    num_numa_nodes: int | None
    governor: str | None
    is_turbo: bool | None

    @property
    def num_usable(self) -> float | None:
        """CPU time that this process can use, in CPUs, after scheduling limits and quota."""
        known = [count for count in (self.num_threads, self.num_allowed, self.quota) if count is not None]
        return min(known) if known else None


@dataclass(frozen=True, slots=True)
class Storage:
    """The storage of a folder. `kind`: "NVMe SSD", "SSD", "HDD", "virtual disk", "network", "memory" or None."""

    folder: str
    kind: str | None
    filesystem: str | None
    capacity_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface, without its addresses. speed_mbps: None if the driver does not report it."""

    name: str
    speed_mbps: int | None


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One device. bus: its connection to the host. num_links: active NVLinks. num_processes: those that use it now."""

    name: str
    memory_bytes: int | None = None
    bus: str | None = None
    max_mhz: int | None = None
    num_links: int | None = None
    num_processes: int | None = None


@dataclass(frozen=True, slots=True)
class Accelerators:
    """All devices of the node. reason: why this may be incomplete; None if it is complete."""

    devices: tuple[Accelerator, ...] = ()
    driver: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ClockFacts:
    """The referee's clock. source: the kernel's; claimed_ns: the resolution claimed; step_ns: the smallest seen."""

    source: str | None
    claimed_ns: int
    step_ns: int | None


@dataclass(frozen=True, slots=True)
class Machine:
    """One node as its operating system shows it.

    virtualisation, container: what was recognised; None does not prove bare metal.
    load_1min: mean number of runnable processes in the last minute. packages: version by name, None if absent.
    """

    processor: Processor
    memory_bytes: int | None
    memory_available_bytes: int | None
    storage: Storage
    interfaces: tuple[Interface, ...]
    accelerators: Accelerators
    clock: ClockFacts
    os: str | None
    kernel: str
    architecture: str
    virtualisation: str | None
    container: str | None
    load_1min: float | None
    max_open_files: int | None
    python: str
    packages: Mapping[str, str | None]


def size(num_bytes: int) -> str:
    """Format bytes in the largest binary unit that leaves a number of at least 1: "48 KiB", "1.5 GiB"."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    power = min(max(num_bytes, 1).bit_length() - 1, 49) // 10
    value = num_bytes / (1 << 10 * power)
    return f"{value:.1f}".removesuffix(".0") + f" {units[power]}"


def speed(mbps: int) -> str:
    """Format megabits per second: "25 Gb/s"."""
    return f"{mbps / 1000:g} Gb/s" if mbps >= 1000 else f"{mbps} Mb/s"


def default_name(machine: Machine) -> str:
    """Return a system name made from the accelerators, or else the processors: "8xNVIDIA-H200", "2xAMD-EPYC-9654"."""
    devices = machine.accelerators.devices
    count, model = len(devices), devices[0].name if devices else ""
    if not devices:
        count, model = machine.processor.num_sockets or 1, machine.processor.model or ""
    model = re.sub(r"\((R|TM|C)\)|\bCPU\b|@.*|\b\d+-Core Processor\b", " ", model, flags=re.IGNORECASE)
    name = re.sub(r"[^A-Za-z0-9_.+-]+", "-", model).strip("-_.+")
    return f"{count}x{name}"[:100] if name else UNNAMED


def system_description(
    machine: Machine,
    submitter: str | None = None,
    system_name: str | None = None,
    status: str | None = None,
    division: str = "closed",
    overrides: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return MLPerf's system description of one node: every value is a text, "unknown" if it cannot be determined.

    Without a name the submitter is "unnamed", a placeholder; without a status it is research, the most modest one.
    `overrides` replaces fields with what a person knows, and may add OPTIONAL_FIELDS.

    Raises:
        UsageError: an unknown status or field, or a name that cannot be that of a folder.

    Source: MLPerf submission rules, system description; core counts are per processor, vCPUs per node.
    """
    status = "rdi" if status is None else status
    if status not in STATUSES and status not in STATUSES.values():
        raise UsageError(unknown_name("status", status, STATUSES))
    for field in overrides or {}:
        if field not in (*FIELDS, *OPTIONAL_FIELDS):
            raise UsageError(unknown_name("field of a system description", field, (*FIELDS, *OPTIONAL_FIELDS)))
    facts = {**_host(machine), **_devices(machine.accelerators), **_software(machine)}
    described = {field: facts.get(field) or UNKNOWN for field in FIELDS} | {
        "submitter": UNNAMED if submitter is None else submitter,
        "division": division,
        "status": STATUSES.get(status, status),
        "system_name": default_name(machine) if system_name is None else system_name,
        "number_of_nodes": "1",
        **(overrides or {}),
    }
    for field in ("submitter", "system_name"):
        if not NAME_PATTERN.fullmatch(described[field]):
            raise UsageError(
                f"{field} is {printable(described[field])!r}; the name of a folder may have at most 100 characters, "
                "only letters, digits and . _ + -, and must begin with a letter or digit"
            )
    return described


def unknown_fields(description: Mapping[str, str]) -> list[str]:
    """Return the fields that a person must fill in."""
    return [field for field in FIELDS if description.get(field) in (UNKNOWN, UNNAMED, None)]


def digests_of(description: Mapping[str, Any] | None, logged: object) -> frozenset[str]:
    """Return the digests by which a system is recognised: two systems are the same if they share one.

    That of its description as a log has it, and that of what the description says of hardware and software, whoever
    submits it and whatever a preflight measured; only the former where the description is not the one that was logged.
    """
    if not isinstance(logged, str):
        return frozenset()
    if description is None or digest_of(dict(description)) != logged:
        return frozenset({logged})
    return frozenset({logged, digest_of({name: text for name, text in description.items() if name not in _PASSING})})


def _host(machine: Machine) -> dict[str, str | None]:
    processor, storage = machine.processor, machine.storage
    sockets, cores = processor.num_sockets, processor.num_cores
    is_even = sockets is not None and cores is not None and cores % sockets == 0
    notes = [machine.virtualisation, machine.container and f"{machine.container} container"]
    if processor.num_usable is not None and processor.num_usable < (processor.num_threads or 0):
        notes.append(f"{processor.num_usable:g} of {processor.num_threads} CPUs usable")
    fast = [speed(link.speed_mbps) for link in machine.interfaces if link.speed_mbps is not None]
    return {
        "host_processors_per_node": _text(sockets),
        "host_processor_model_name": processor.model,
        "host_processor_core_count": _text(cores // sockets) if is_even and cores and sockets else None,
        "host_processor_vcpu_count": _text(processor.num_threads),
        "host_processor_frequency": f"{processor.max_mhz} MHz" if processor.max_mhz else None,
        "host_processor_caches": ", ".join(processor.caches),
        "host_processor_interconnect": NONE if sockets == 1 else None,
        "host_memory_capacity": size(machine.memory_bytes) if machine.memory_bytes else None,
        "host_storage_type": storage.kind,
        "host_storage_capacity": size(storage.capacity_bytes),
        "host_networking": ", ".join(f"{fast.count(one)} x {one}" for one in dict.fromkeys(fast)),
        "host_networking_topology": NONE,  # of one node
        "hw_notes": "; ".join(note for note in notes if note) or NONE,
    }


def _devices(accelerators: Accelerators) -> dict[str, str | None]:
    """Return the fields of the accelerators; "none" only if nothing suggests that there is one."""
    fields = [field for field in FIELDS if field.startswith("accelerator")]
    if not accelerators.devices:
        absent = NONE if accelerators.reason is None else None
        return {field: "0" if field == "accelerators_per_node" and absent else absent for field in fields}
    first, count = accelerators.devices[0], len(accelerators.devices)
    names = list(dict.fromkeys(device.name for device in accelerators.devices))
    links = f"NVLink, {first.num_links} links a device" if first.num_links else None
    return {
        "accelerators_per_node": str(count),
        "accelerator_model_name": ", ".join(names),
        "accelerator_host_interconnect": first.bus,
        "accelerator_frequency": f"{first.max_mhz} MHz" if first.max_mhz else None,
        "accelerator_memory_capacity": size(first.memory_bytes) if first.memory_bytes else None,
        "accelerator_interconnect": NONE if count == 1 else links,
        "accelerator_interconnect_topology": NONE if count == 1 else None,
    }


def _software(machine: Machine) -> dict[str, str | None]:
    torch = machine.packages.get("torch")
    others = [f"{name} {version}" for name, version in machine.packages.items() if version and name != "torch"]
    driver = [f"accelerator driver {machine.accelerators.driver}"] if machine.accelerators.driver else []
    return {
        "framework": f"PyTorch {torch}" if torch else None,
        "other_software_stack": ", ".join([f"Python {machine.python}", *others, *driver]),
        "operating_system": ", ".join(text for text in (machine.os, f"Linux {machine.kernel}") if text),
        "sw_notes": NONE,
    }


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
