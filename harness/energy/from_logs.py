"""The energy of a run from its log and the power logs beside it: what any judge can add up again. Pure.

Nothing that the run's log says of its energy is believed here; `harness.log.power_files` has read the power logs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from harness.base.values import is_whole
from harness.energy.accounting import run_energy
from harness.energy.plausibility import outside_run, unattributed
from harness.energy.run_energy import EnergyLimits, RunEnergy
from harness.errors import LogError
from harness.log import keys
from harness.log.power_format import NodePower, Sample
from harness.log.run_log import RunLog

_MAX_NS = 1 << 63


def energy_of(log: RunLog, limits: EnergyLimits, num_nodes: int | None = None) -> RunEnergy | None:
    """The energy of a run, added up anew from `log.nodes`; None where it has no power logs: not measured.

    num_nodes: how many nodes the system description names; without it, as many as the log has hosts.
    """
    if not log.nodes:
        return None
    asked = (limits, num_nodes)
    if asked not in log.energies:
        log.energies[asked] = _energy(log, limits, num_nodes)
    return log.energies[asked]


def idle_w(log: RunLog) -> float | None:
    """Mean power of all nodes together while nothing ran, in watts; None where it was not metered on every node.

    The same meters are added up as in a run. It is told, and taken from nothing.
    """
    num_nodes = sum(not node.is_switch for node in log.nodes)
    return mean_power_w(log.idle) if len(log.idle) == num_nodes else None


def mean_power_w(nodes: Sequence[NodePower]) -> float | None:
    """Mean power of all nodes, each from its own start to its own stop; None where one of them does not give it."""
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
    """`run_start` and `run_stop` in the time that the power logs have: the system's monotonic clock where one of them
    is ours, else wall time; None where the log does not say, or where the stop is not after the start.
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
    """Whether a power log of ours bears the identity of another run, or none. MLPerf's bear none at all."""
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
    doubts = {
        "other_run": any(is_of_another_run(node, log) for node in log.nodes),
        "other_time": any(outside_run(node, log, window) is not None for node in log.nodes),
        "of_nobody": energy.joules is not None and any(unattributed(node, log) is not None for node in log.nodes),
    }
    return replace(energy, void=tuple(sorted({*energy.void, *(name for name, is_so in doubts.items() if is_so)})))


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
        void=("no_energy", "unplaced"),
    )


def hosts_of(log: RunLog) -> set[str] | None:
    """The hosts the log names; None where it names none."""
    world = log.value(keys.TTA_WORLD)
    ranks = world if isinstance(world, list) else []
    hosts = {host for rank in ranks if isinstance(rank, dict) and isinstance(host := rank.get("host"), str)}
    return hosts or None


def _on_one_clock(log: RunLog) -> tuple[NodePower, ...]:
    """The power logs, those of MLPerf's kind moved from wall time onto the monotonic clock where others are ours."""
    if all(node.dialect == "mlperf" for node in log.nodes):
        return log.nodes
    start, mono_ns = log.first(keys.RUN_START), log.field(keys.TTA_CLOCK, "mono_ns")
    assert start is not None  # or there were no window
    assert start.elapsed_ns is not None
    if (wall_ns := _wall_ns(start.time_ms)) is None:
        return log.nodes  # no time of theirs is within the run
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
