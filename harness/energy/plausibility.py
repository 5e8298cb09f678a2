"""What says that readings are not those of their run, or not of all that it ran on. Pure.

Each has a sentence for the check that tells it, and voids the energy: true readings of an idle hour, of another machine
or of seven accelerators of eight add up to joules that are not the run's.
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
MAX_APART_S = 1.0  # the two clocks of a log that a person brought, from those of the run
_DESCRIBED: tuple[tuple[str, Component], ...] = (
    ("accelerators_per_node", "gpu"),
    ("host_processors_per_node", "cpu_package"),
)


@dataclass(frozen=True, slots=True)
class Missing:
    """`metered` of the `described` devices of a node, as the field `name` of the system description counts them."""

    node: NodePower
    name: str
    described: int
    metered: int

    @property
    def voids(self) -> bool:
        """Some accelerators and not all: the scope of the sum does not show it. Where none was metered, it does, and
        processors are counted in more than one way (sockets, packages, modules).
        """
        return self.name == "accelerators_per_node" and self.metered > 0


def outside_run(node: NodePower, log: RunLog, window: tuple[int, int]) -> str | None:
    """What the times of a power log of ours say against it; None where nothing does.

    window: run_start and run_stop on the referee's clock, of `loggedenergy.window_ns`.
    """
    readings_ns = [sample.mono_ns for series in node.samples.values() for sample in series]
    if node.dialect != "tta" or not readings_ns:
        return None
    clock, start = node_clock(node.offsets, *window), log.first(keys.RUN_START)
    assert start is not None  # or there were no window
    assert start.elapsed_ns is not None
    if is_brought(node):
        if node.wall_ms is None:
            return "no line of it has a time_ms, by which a log that was brought is laid over the run"
        apart_ns = (node.wall_ms - start.time_ms) * 1e6 - (min(readings_ns) - clock.node_ns(window[0]))
        if abs(apart_s := apart_ns / 1e9) > MAX_APART_S:
            return f"its clocks are {apart_s:.3f} s from those of the run; {MAX_APART_S:g} s is the most"
        return None
    origin_ns = window[0] - start.elapsed_ns
    lines_ns = [origin_ns + event.elapsed_ns for event in log.events if event.elapsed_ns is not None]
    early_s = (clock.node_ns(min(lines_ns)) - min(readings_ns)) / 1e9
    late_s = (max(readings_ns) - clock.node_ns(max(lines_ns))) / 1e9
    if early_s > SLACK_S:
        return f"its readings begin {early_s:.3f} s before the run's log does; {SLACK_S:g} s is the most"
    if late_s > SLACK_S:
        return f"its readings end {late_s:.3f} s after the run's log does; {SLACK_S:g} s is the most"
    return None


def unattributed(node: NodePower, log: RunLog) -> str | None:
    """Why nobody can have written this log of a node beside a run of ours; None where somebody can."""
    if log.is_foreign or node.is_switch:
        return None
    if node.dialect == "mlperf":
        return "it does not say of which run it is: the harness did not write it"
    stated = [log.field(keys.TTA_ENERGY, name) for name in ("energy_j", "source")]
    if stated == [None, "none"] and not is_brought(node):
        why = "the referee says that nothing was metered"
        return f"{why}; its meters are {', '.join(sorted(node.specs))[:80]}"
    return None


def is_brought(node: NodePower) -> bool:
    """Whether a person brought the log (`tta power import`): all its meters are called csv:."""
    return all(name.startswith("csv:") for name in node.specs)


def missing_devices(
    parts: Sequence[EnergyPart], nodes: Sequence[NodePower], system: Mapping[str, object]
) -> Iterator[Missing]:
    """Of the nodes whose energy is a sum of components, those not metered in full. What is modelled was not metered."""
    for node in (node for node in nodes if not node.is_switch):
        devices: list[str] = [part.component for part in parts if _is_metered(part, node)]
        for name, component in _DESCRIBED:
            described, found = positive_int(system.get(name)), devices.count(component)
            is_asked = found > 0 or (component == "gpu" and devices)
            if described is not None and is_asked and found < described:
                yield Missing(node, name, described, found)


def _is_metered(part: EnergyPart, node: NodePower) -> bool:
    """Whether a meter of the node's adds a device of it to the energy; there is one such part a device."""
    return part.node == node.node and part.component in PARTS and part.meter_class != "E"
