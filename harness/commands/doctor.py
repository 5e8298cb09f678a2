"""`tta doctor`: what this machine is, what would disturb a run on it, and its system description."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ExitStatus, OutputError, UsageError, printable, unknown_name
from harness.metering.meters import Survey, survey
from harness.run import machine_face as node
from harness.submission.system import Machine, Processor, size, speed, system_description, unknown_fields

# A fifth of the CPUs taken by others slows a run on all of them by about as much.
BUSY_FRACTION = 0.2
# The data sets of the standard suite, prepared, with room for logs and checkpoints.
LOW_DISK_BYTES = 10 << 30
# PyTorch's data loaders hold several descriptors a worker and a batch; 1024 is every distribution's default.
MIN_OPEN_FILES = 1024
# The clock must tell blocks of some milliseconds apart.
MAX_CLOCK_STEP_NS = 100_000
FORMATS = ("text", "json")


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at; `advice` is what to do about it, None where it is well."""

    name: str
    value: str
    advice: str | None = None


Report = dict[str, list[Line]]


def run(
    output: Path | None,
    submitter: str | None,
    system_name: str | None,
    status: str | None,
    output_format: str = "text",
    check: bool = False,
) -> ExitStatus:
    """Prints the report on standard output and, with `output`, writes the system description there.

    OK if it could look, whatever it saw; with `check`, FINDINGS if anything wants a look.

    Raises:
        UsageError: an unknown format or status, or a name that cannot be a folder's.
        OutputError: `output` cannot be written, or is there with other content.
    """
    if output_format not in FORMATS:
        raise UsageError(unknown_name("format", output_format, FORMATS))
    machine = node.look()
    description = system_description(machine, submitter, system_name, status)
    meters = survey(description)
    report = examine(machine, meters, description)
    if output is not None:
        write_description(output, description)
    if output_format == "json":
        print(json.dumps(as_json(machine, meters, report, description, output), indent=2))
    else:
        print(as_text(report))
        if output is not None:
            print(f"\nsystem description written to {printable(output, 1000)}")
    return ExitStatus.FINDINGS if check and any(looks(report)) else ExitStatus.OK


def examine(machine: Machine, meters: Mapping[str, Survey], description: Mapping[str, str]) -> Report:
    """The report by section. `meters`: what each would give here, or why it gives nothing."""
    unknown = unknown_fields(description)
    return {
        "processor": _processor(machine.processor, machine.load_1min),
        "memory and storage": _memory_and_storage(machine),
        "network": _network(machine),
        "accelerators": _accelerators(machine),
        "system": [
            Line("operating system", machine.os or "unknown"),
            Line("kernel", f"{machine.kernel} ({machine.architecture})"),
            Line("virtualisation", machine.virtualisation or "none recognised"),
            Line("container", machine.container or "none recognised"),
            _open_files(machine.max_open_files),
        ],
        "clock": [_clock(machine)],
        "software": [
            Line("python", machine.python),
            *(Line(name, version or "not installed") for name, version in machine.packages.items()),
            Line("to train", "possible")
            if machine.packages.get("torch")
            else Line("to train", "not possible", "install the training part: pip install 'tta-harness[train]'"),
        ],
        "meters": [Line(name, found.told) for name, found in meters.items()],
        "system description": [
            Line("name", description["system_name"]),
            Line("status", description["status"]),
            Line(
                "to fill in by hand",
                ", ".join(unknown) or "nothing",
                "checks find a placeholder; write the file with --out and edit it" if unknown else None,
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
            "a quota or an affinity holds the rest back: a result belongs to what is usable, so say it in hw_notes"
            if is_limited
            else None,
        )
    )
    governor = processor.governor
    lines.append(
        Line(
            "frequency governor",
            governor or "not visible",
            "the frequency follows the load and times vary more; choose 'performance', or say it in sw_notes"
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
            "the machine is busy: what runs beside a run slows it; wait, or stop the rest" if is_busy else None,
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
    return lines or [Line("interfaces", "no hardware seen")]


def _accelerators(machine: Machine) -> list[Line]:
    found = machine.accelerators
    lines = []
    for index, device in enumerate(found.devices):
        memory = size(device.memory_bytes) if device.memory_bytes else "memory unknown"
        lines.append(
            Line(
                str(index),
                ", ".join(text for text in (device.name, memory, device.bus) if text),
                f"{device.num_processes} processes compute on it now" if device.num_processes else None,
            )
        )
    if found.driver:
        lines.append(Line("driver", found.driver))
    if found.reason:
        value = "details unknown" if found.devices else "unknown"
        advice = f"{found.reason}; install the driver and nvidia-ml-py, or fill the fields by hand"
        lines.append(Line("seen", value, advice))
    return lines or [Line("seen", "none")]


def _open_files(limit: int | None) -> Line:
    advice = f"fewer than {MIN_OPEN_FILES:,} can stop a data loader; raise it: ulimit -n {MIN_OPEN_FILES}"
    return Line("open files allowed", _number(limit), advice if limit is not None and limit < MIN_OPEN_FILES else None)


def _clock(machine: Machine) -> Line:
    clock = machine.clock
    value = f"{clock.claimed_ns} ns claimed, {_number(clock.step_ns)} ns seen, source {clock.source or 'unknown'}"
    is_coarse = clock.step_ns is None or clock.step_ns > MAX_CLOCK_STEP_NS
    return Line("monotonic clock", value, "too coarse to time a block; look at the clock source" if is_coarse else None)


def looks(report: Report) -> list[Line]:
    """The lines that want a look."""
    return [line for lines in report.values() for line in lines if line.advice is not None]


def as_text(report: Report) -> str:
    """The report for a terminal: one line a thing, what to do on the line below it."""
    width = max(len(line.name) for lines in report.values() for line in lines)
    shown = []
    for section, lines in report.items():
        shown.append(f"{section}")
        for line in lines:
            shown.append(f"  {'ok  ' if line.advice is None else 'look'}  {line.name:<{width}}  {line.value}")
            if line.advice is not None:
                shown.append(f"        {'':<{width}}  -> {line.advice}")
    count = len(looks(report))
    shown.append(f"\n{count} thing{'s want' if count != 1 else ' wants'} a look" if count else "\nnothing wants a look")
    return "\n".join(shown)


def as_json(
    machine: Machine,
    meters: Mapping[str, Survey],
    report: Report,
    description: Mapping[str, str],
    output: Path | None,
) -> dict[str, object]:
    """The same as one document: facts, meters with the reason of each that is unavailable, and what wants a look."""
    return {
        "machine": dataclasses.asdict(machine),
        "meters": {
            name: {
                "available": found.reason is None,
                "reason": found.reason,
                "meters": [dataclasses.asdict(spec) for spec in found.specs],
            }
            for name, found in meters.items()
        },
        "looks": [
            {"section": section, "name": line.name, "value": line.value, "advice": line.advice}
            for section, lines in report.items()
            for line in lines
            if line.advice is not None
        ],
        "system_description": dict(description),
        "written": None if output is None else str(output),
    }


def write_description(output: Path, description: Mapping[str, str]) -> None:
    """Writes the description whole or not at all; a file that is there already stays, and must say the same.

    Raises:
        OutputError: `output` cannot be written, or is there with other content.
    """
    data = (json.dumps(dict(description), indent=2, ensure_ascii=False) + "\n").encode()
    draft = output.with_name(f".{output.name}.{os.getpid()}.draft")
    try:
        try:
            with draft.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.link(draft, output)  # unlike a rename, a link never replaces what is there
        finally:
            with contextlib.suppress(FileNotFoundError):
                draft.unlink()
    except FileExistsError:
        if not _says(output, data):
            raise OutputError(f"{printable(output, 1000)}: is there already and says something else") from None
    except OSError as error:
        raise OutputError(f"{printable(output, 1000)}: cannot be written: {error.strerror}") from None


def _says(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False


def _number(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"
