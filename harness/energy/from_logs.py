"""The energy of a run from its log and the power logs next to it, which anyone can add up again. Pure.

Nothing that the run's log states about its energy is trusted here; `harness.log.power_files` has read the power logs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from harness.base.values import is_whole
from harness.energy.accounting import run_energy
from harness.energy.limits import EnergyLimits
from harness.energy.plausibility import outside_run, unattributed
from harness.energy.reasons import VoidReason
from harness.energy.run_energy import RunEnergy
from harness.errors import LogError
from harness.log import keys
from harness.log.power_format import NodePower, Sample
from harness.log.run_log import RunLog

_MAX_NS = 1 << 63


def energy_of(log: RunLog, limits: EnergyLimits, num_nodes: int | None = None) -> RunEnergy | None:
    """Return the energy of a run, added up from `log.nodes`; None if it has no power logs: it was not measured.

    num_nodes: how many nodes the system description names; by default as many as the log has hosts.
    """
    if not log.nodes:
        return None
    return log.cached(_energy, limits, num_nodes)


def idle_w(log: RunLog) -> float | None:
    """Mean power of all nodes together while nothing ran, in watts; None if it was not metered on every node.

    The same meters are added up as in a run. It is shown, and subtracted from nothing.
    """
    num_nodes = sum(not node.is_switch for node in log.nodes)
    return mean_power_w(log.idle) if len(log.idle) == num_nodes else None


def mean_power_w(nodes: Sequence[NodePower]) -> float | None:
    """Mean power of all nodes, each from its own start to its own stop; None if it is unknown for one of them."""
    watts = []
    for node in nodes:
        if node.start_ns is None or node.stop_ns is None:
            return None
        try:
            energy = run_energy([replace(node, offsets=())], node.start_ns, node.stop_ns)
        except LogError:
            return None
        if energy.mean_w is None:
            return None
        watts.append(energy.mean_w)
    return math.fsum(watts) if watts else None


def window_ns(log: RunLog) -> tuple[int, int] | None:
    """`run_start` and `run_stop` on the clock of the power logs: the system's monotonic clock if one of them is in
    `tta`'s format, else wall time; None if the log does not say, or if the stop is not after the start.
    """
    start, stops = log.first(keys.RUN_START), log.all(keys.RUN_STOP)
    if start is None or not stops:
        return None
    origin_ns = 0
    if any(node.dialect == "tta" for node in log.nodes):
        mono_ns = log.field(keys.TTA_CLOCK, "mono_ns")
        if not is_whole(mono_ns):
            return None
        edges, origin_ns = [start.elapsed_ns, stops[-1].elapsed_ns], mono_ns
    else:
        edges = [_wall_ns(start.time_ms), _wall_ns(stops[-1].time_ms)]
    if edges[0] is None or edges[1] is None or not 0 <= edges[0] < edges[1] < _MAX_NS or abs(origin_ns) >= _MAX_NS:
        return None
    return edges[0] + origin_ns, edges[1] + origin_ns


def is_of_another_run(node: NodePower, log: RunLog) -> bool:
    """Whether a power log in `tta`'s format has the id of another run, or none. MLPerf's logs have no ids at all."""
    if node.dialect == "mlperf" or "unreadable" in node.defect_counts:
        return False
    return node.run_id is None or node.run_id != log.field(keys.TTA_FORMAT, "run_id")


def _energy(log: RunLog, limits: EnergyLimits, num_nodes: int | None) -> RunEnergy:
    window = window_ns(log)
    if window is None:
        return _unplaced(log.nodes)
    try:
        energy = run_energy(_on_one_clock(log), *window, hosts=hosts_of(log), num_nodes=num_nodes, limits=limits)
    except LogError:
        return _unplaced(log.nodes)
    signs = {
        VoidReason.OTHER_RUN: any(is_of_another_run(node, log) for node in log.nodes),
        VoidReason.OUTSIDE_RUN: any(outside_run(node, log, window) is not None for node in log.nodes),
        VoidReason.UNATTRIBUTED: energy.joules is not None
        and any(unattributed(node, log) is not None for node in log.nodes),
    }
    return replace(
        energy, void=tuple(sorted({*energy.void, *(reason for reason, applies in signs.items() if applies)}))
    )


def _unplaced(nodes: Sequence[NodePower]) -> RunEnergy:
    return RunEnergy(
        joules=None,
        uncertainty_j=None,
        mean_w=None,
        meter_class="N",
        scope="none",
        share_estimated=0.0,
        coverage=0.0,
        longest_gap_s=0.0,
        num_samples=0,
        num_nodes=sum(not node.is_switch for node in nodes),
        void=(VoidReason.NO_ENERGY, VoidReason.UNPLACED),
    )


def hosts_of(log: RunLog) -> set[str] | None:
    """The hosts that the log names; None if it names none."""
    world = log.value(keys.TTA_WORLD)
    ranks = world if isinstance(world, list) else []
    hosts = {host for rank in ranks if isinstance(rank, dict) and isinstance(host := rank.get("host"), str)}
    return hosts or None


def _on_one_clock(log: RunLog) -> tuple[NodePower, ...]:
    """The power logs; those in MLPerf's format move from wall time to the monotonic clock if others are in `tta`'s."""
    if all(node.dialect == "mlperf" for node in log.nodes):
        return log.nodes
    start, mono_ns = log.first(keys.RUN_START), log.field(keys.TTA_CLOCK, "mono_ns")
    assert start is not None  # else there would be no window
    assert start.elapsed_ns is not None
    if (wall_ns := _wall_ns(start.time_ms)) is None:
        return log.nodes  # none of their times is within the run
    shift_ns = mono_ns + start.elapsed_ns - wall_ns
    return tuple(_moved(node, shift_ns) if node.dialect == "mlperf" else node for node in log.nodes)


def _moved(node: NodePower, by_ns: int) -> NodePower:
    samples = {
        meter: tuple(Sample(sample.mono_ns + by_ns, sample.value) for sample in series)
        for meter, series in node.samples.items()
    }
    return replace(node, samples=samples)


def _wall_ns(time_ms: float) -> int | None:
    try:
        return round(time_ms * 1_000_000)
    except (OverflowError, ValueError):  # infinite, or not a number
        return None
