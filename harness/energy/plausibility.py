"""Signs that readings are not from their run, or not from all the devices that it ran on. Pure.

Each has a sentence for the check that reports it, and voids the energy: genuine readings of an idle hour, of another
machine or of seven accelerators out of eight add up to joules that are not the run's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.base.values import positive_int
from harness.energy.clock_offset import node_clock
from harness.energy.meter_selection import PARTS
from harness.energy.run_energy import EnergyPart
from harness.log import keys
from harness.log.power_format import Component, NodePower
from harness.log.run_log import RunLog

SLACK_S = 2.0  # readings before the first line of the run's log, or after the last
MAX_APART_S = 1.0  # between the clocks of an imported log and those of the run
_DESCRIBED: tuple[tuple[str, Component], ...] = (
    ("accelerators_per_node", "gpu"),
    ("host_processors_per_node", "cpu_package"),
)


@dataclass(frozen=True, slots=True)
class Missing:
    """Only `metered` of the `described` devices of a node were metered. name: the field of the system description."""

    node: NodePower
    name: str
    described: int
    metered: int

    @property
    def voids(self) -> bool:
        """Some accelerators but not all, which the scope of the sum does not show. If none was metered, it does; and
        processors are counted in more than one way (sockets, packages, modules).
        """
        return self.name == "accelerators_per_node" and self.metered > 0


def outside_run(node: NodePower, log: RunLog, window: tuple[int, int]) -> str | None:
    """Why the times of a power log in `tta`'s format cannot be those of the run; None if they can.

    window: run_start and run_stop on the referee's clock, from `from_logs.window_ns`.
    """
    readings_ns = [sample.mono_ns for series in node.samples.values() for sample in series]
    if node.dialect != "tta" or not readings_ns:
        return None
    clock, start = node_clock(node.offsets, *window), log.first(keys.RUN_START)
    assert start is not None  # else there would be no window
    assert start.elapsed_ns is not None
    if is_imported(node):
        if node.wall_ms is None:
            return "it is imported, and none of its lines has a time_ms that aligns it with the run"
        apart_ns = (node.wall_ms - start.time_ms) * 1e6 - (min(readings_ns) - clock.node_ns(window[0]))
        if abs(apart_s := apart_ns / 1e9) > MAX_APART_S:
            return f"its clocks are {apart_s:.3f} s from those of the run; the limit is {MAX_APART_S:g} s"
        return None
    origin_ns = window[0] - start.elapsed_ns
    lines_ns = [origin_ns + event.elapsed_ns for event in log.events if event.elapsed_ns is not None]
    early_s = (clock.node_ns(min(lines_ns)) - min(readings_ns)) / 1e9
    late_s = (max(readings_ns) - clock.node_ns(max(lines_ns))) / 1e9
    if early_s > SLACK_S:
        return f"its readings begin {early_s:.3f} s before the run's log; the limit is {SLACK_S:g} s"
    if late_s > SLACK_S:
        return f"its readings end {late_s:.3f} s after the run's log; the limit is {SLACK_S:g} s"
    return None


def unattributed(node: NodePower, log: RunLog) -> str | None:
    """Why neither the referee nor `tta power import` can have written this log of a `tta` run; None if one can."""
    if log.is_foreign or node.is_switch:
        return None
    if node.dialect == "mlperf":
        return "it does not say which run it belongs to: tta did not write it"
    stated = [log.field(keys.TTA_ENERGY, name) for name in ("energy_j", "source")]
    if stated == [None, "none"] and not is_imported(node):
        why = "tta_energy says that nothing was metered"
        return f"{why}; its meters are {', '.join(sorted(node.specs))[:80]}"
    return None


def is_imported(node: NodePower) -> bool:
    """Whether the log is from `tta power import`: the names of all its meters begin with csv:."""
    return all(name.startswith("csv:") for name in node.specs)


def missing_devices(
    parts: Sequence[EnergyPart], nodes: Sequence[NodePower], system: Mapping[str, object]
) -> Iterator[Missing]:
    """The nodes whose energy is a sum of components and not of all of them. What is modelled was not metered."""
    for node in (node for node in nodes if not node.is_switch):
        devices: list[str] = [part.component for part in parts if _is_metered(part, node)]
        for name, component in _DESCRIBED:
            described, found = positive_int(system.get(name)), devices.count(component)
            is_asked = found > 0 or (component == "gpu" and devices)
            if described is not None and is_asked and found < described:
                yield Missing(node, name, described, found)


def _is_metered(part: EnergyPart, node: NodePower) -> bool:
    """Whether the part is a metered device of the node; there is one such part per device."""
    return part.node == node.node and part.component in PARTS and part.meter_class != "E"
