"""Adds up the power logs of a run's nodes on the referee's clock: joules, and what voids or flags them. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from harness.energy.clock_offset import NodeClock, node_clock
from harness.energy.integral import MeterIntegral, integrate_meter
from harness.energy.limits import EnergyLimits
from harness.energy.meter_selection import CLASSES, choose
from harness.energy.reasons import EnergyFlag, VoidReason
from harness.energy.run_energy import EnergyPart, RunEnergy
from harness.errors import LogError
from harness.log.power_format import MeterClass, MeterSpec, NodePower

ALREADY_COUNTED = "already counted in "  # why a meter was excluded, before the name of the first log that has it


@dataclass(slots=True)
class _Total:
    """What is collected node by node."""

    limits: EnergyLimits
    parts: list[EnergyPart] = field(default_factory=list)
    excluded: list[tuple[str, str, str]] = field(default_factory=list)
    void: set[VoidReason] = field(default_factory=set)
    flags: set[EnergyFlag] = field(default_factory=set)
    devices: dict[tuple[str, ...], str] = field(default_factory=dict)
    traces: dict[int, str] = field(default_factory=dict)
    scopes: set[str] = field(default_factory=set)
    doubled: set[str] = field(default_factory=set)
    clock_error_s: float = 0.0


def run_energy(
    nodes: Sequence[NodePower],
    start_ns: int,
    stop_ns: int,
    *,
    hosts: Collection[str] | None = None,
    num_nodes: int | None = None,
    limits: EnergyLimits | None = None,
) -> RunEnergy:
    """Return the energy of the run from `start_ns` to `stop_ns` on the referee's clock (in MLPerf's logs: wall time).

    Args:
        nodes: the power logs of all nodes and switches of the run.
        start_ns: `run_start`, in nanoseconds.
        stop_ns: `run_stop`.
        hosts: the hosts that the run's log names; without them, nodes are only counted.
        num_nodes: how many nodes the run had; by default as many as there are hosts, else as there are logs.
        limits: the limits of the rules.

    Raises:
        LogError: the stop is not after the start, or a reading is negative or not finite.
    """
    if stop_ns <= start_ns:
        raise LogError(f"energy: the run starts at {start_ns} ns and stops at {stop_ns} ns")
    total = _Total(limits or EnergyLimits())
    logs = [node for node in nodes if not node.is_switch]
    for node in nodes:
        _add_node(total, node, start_ns, stop_ns, is_one_of_many=len(logs) > 1)
    _judge_nodes(total, logs, hosts, num_nodes)
    return _result(total, len(logs), (stop_ns - start_ns) / 1e9)


def _add_node(total: _Total, node: NodePower, start_ns: int, stop_ns: int, *, is_one_of_many: bool) -> None:
    if node.interconnect_w is not None:
        joules = node.interconnect_w * (stop_ns - start_ns) / 1e9
        part = EnergyPart(node.node, "interconnect_power_est", "switch", "model", "E", joules, 0.0, None)
        total.parts.append(part)
    if not node.specs:
        return
    clock = node_clock(node.offsets, start_ns, stop_ns)
    _judge_clock(total, clock, node, is_one_of_many)
    integrals = {
        spec.id: integrate_meter(
            spec,
            node.samples.get(spec.id, ()),
            clock.node_ns(start_ns),
            clock.node_ns(stop_ns),
            sync_s=clock.error_s if clock.is_known or is_one_of_many or node.dialect == "mlperf" else 0.0,
        )
        for spec in node.specs.values()
    }
    choice = choose(node, integrals)
    total.flags.update(choice.flags)
    total.excluded.extend((node.node, meter, why) for meter, why in choice.excluded.items())
    places = set()
    for meter in choice.chosen:
        spec, integral = node.specs[meter], integrals[meter]
        first = _counted_before(total, node, spec)
        if first is not None:
            total.void.add(VoidReason.COUNTED_TWICE)
            total.doubled.add(node.node)
            total.excluded.append((node.node, meter, f"{ALREADY_COUNTED}{first}"))
            continue
        part = EnergyPart(
            node.node,
            meter,
            spec.component,
            spec.scope,
            spec.meter_class,
            integral.joules,
            integral.uncertainty_j,
            integral,
        )
        total.parts.append(part)
        _judge_trace(total, node, spec)
        _judge_meter(total, spec, integral)
        if spec.component != "switch":
            places.add(f"{'node' if spec.component == 'pdu' else spec.component} ({spec.scope})")
    if places and not node.is_switch:
        total.scopes.add(" + ".join(sorted(places)))


def _counted_before(total: _Total, node: NodePower, spec: MeterSpec) -> str | None:
    """The name of an earlier log that has the same meter, by its device or its machine."""
    machine = node.machine or node.host
    is_global = spec.component in ("node", "pdu", "switch") or str(spec.device).startswith(("GPU-", "MIG-"))
    name: tuple[str, ...] | None = None
    if spec.device is not None and (is_global or machine is not None):
        name = (spec.component, spec.device) if is_global else (spec.component, spec.device, str(machine))
    elif machine is not None:
        name = ("id", spec.id, machine)
    if name is None:
        return None
    first = total.devices.setdefault(name, node.node)
    return None if first == node.node else first


def _judge_trace(total: _Total, node: NodePower, spec: MeterSpec) -> None:
    """Two meters never answer in the same nanoseconds (in MLPerf's logs: milliseconds) with the same watts."""
    samples = node.samples.get(spec.id, ())
    trace = hash(tuple((sample.mono_ns, sample.value) for sample in samples))
    if len(samples) > 1 and total.traces.setdefault(trace, node.node) != node.node:
        total.void.add(VoidReason.SAME_TRACE)


def _judge_clock(total: _Total, clock: NodeClock, node: NodePower, is_one_of_many: bool) -> None:
    if clock.is_known:
        total.clock_error_s = max(total.clock_error_s, clock.error_s)
        if clock.error_s > total.limits.max_clock_error_s:
            total.void.add(VoidReason.CLOCKS_APART)
        if clock.error_s > total.limits.told_clock_error_s:
            total.flags.add(EnergyFlag.CLOCK_OFFSET)
    elif node.dialect == "mlperf" or not is_one_of_many:
        total.flags.add(EnergyFlag.CLOCK_UNKNOWN)
    else:
        total.void.add(VoidReason.CLOCK_UNKNOWN)


def _judge_meter(total: _Total, spec: MeterSpec, integral: MeterIntegral) -> None:
    limits = total.limits
    faults = {
        VoidReason.COVERAGE: integral.coverage < limits.min_coverage,
        VoidReason.GAP: integral.longest_gap_s > limits.max_gap_s,
        VoidReason.FEW_SAMPLES: not integral.is_counter and integral.num_samples < limits.min_samples,
        VoidReason.TIME_BACKWARDS: integral.num_backwards > 0,
        VoidReason.COUNTER_RESET: integral.num_resets > 0,
        VoidReason.DOUBLE_WRAP: integral.num_unsure > 0,
        VoidReason.ACCURACY_POOR: spec.meter_class != "E" and (spec.accuracy_pct or 0.0) > limits.max_accuracy_pct,
        VoidReason.ACCURACY_UNDECLARED: spec.meter_class == "A" and spec.accuracy_pct is None,
    }
    flags = {
        EnergyFlag.SLOW_SAMPLING: not integral.is_counter and (integral.median_step_s or 0.0) > limits.told_step_s,
        EnergyFlag.FAILED_READS: integral.num_failed > 0,
        EnergyFlag.DUPLICATES: integral.num_duplicates > 0,
        EnergyFlag.HELD_EDGES: integral.joules is not None and integral.coverage < 1,
        EnergyFlag.ACCURACY_ASSUMED: spec.accuracy_pct is None,
    }
    total.void.update(reason for reason, applies in faults.items() if applies)
    total.flags.update(flag for flag, applies in flags.items() if applies)


def _judge_nodes(
    total: _Total, logs: Sequence[NodePower], hosts: Collection[str] | None, num_nodes: int | None
) -> None:
    contributing = {part.node for part in total.parts if part.joules is not None and part.component != "switch"}
    lost = {node.node for node in logs} - contributing - total.doubled
    num_logs = len(logs) - len(total.doubled - contributing)
    present = {node.host for node in logs}
    named = None if hosts is None else set(hosts)
    expected = num_nodes if num_nodes is not None else num_logs if named is None else len(named)
    if None in present:
        named = None  # MLPerf's logs name no host, so they can only be counted
    if num_logs < expected or (named is not None and named - present) or (lost and contributing):
        total.void.add(VoidReason.NODE_MISSING)
    if num_logs > expected or (named is not None and present - named):
        total.void.add(VoidReason.NODE_EXTRA)
    if len(total.scopes) > 1:
        total.void.add(VoidReason.SCOPE_MIXED)


def _result(total: _Total, num_nodes: int, length_s: float) -> RunEnergy:
    parts = total.parts
    integrals = [part.integral for part in parts if part.integral is not None]
    joules = math.fsum(part.joules or 0.0 for part in parts)
    estimated_j = math.fsum(part.joules or 0.0 for part in parts if part.meter_class == "E")
    share = estimated_j / joules if joules > 0 else float(any(part.meter_class == "E" for part in parts))
    has_node = any(part.component != "switch" for part in parts)
    is_known = has_node and VoidReason.NODE_MISSING not in total.void and all(part.joules is not None for part in parts)
    if not has_node or not any(part.joules is not None for part in parts):
        total.void.add(VoidReason.NO_ENERGY)
    if share > total.limits.max_estimated_share:
        total.void.add(VoidReason.ESTIMATED_SHARE)
    uncertainty_j = _uncertainty(parts) if is_known else None
    if uncertainty_j is not None and uncertainty_j > total.limits.max_uncertainty_share * joules:
        total.void.add(VoidReason.UNCERTAIN)
    classes = [part.meter_class for part in parts if part.meter_class != "E"]
    weakest: MeterClass = max(classes, key=CLASSES.index, default="E" if has_node else "N")
    if not has_node:
        weakest = "N"
    elif share > total.limits.max_estimated_share:
        weakest = "E"
    riemann = [integral.right_riemann_j for integral in integrals]
    constant_j = math.fsum(part.joules or 0.0 for part in parts if part.integral is None)
    sums = [item for item in riemann if item is not None]
    return RunEnergy(
        joules=joules if is_known else None,
        uncertainty_j=uncertainty_j,
        mean_w=joules / length_s if is_known else None,
        meter_class=weakest,
        scope=", ".join(sorted(total.scopes)) or "none",
        share_estimated=share,
        coverage=min((integral.coverage for integral in integrals), default=0.0),
        longest_gap_s=max((integral.longest_gap_s for integral in integrals), default=length_s),
        num_samples=min((integral.num_samples for integral in integrals), default=0),
        num_nodes=num_nodes,
        num_wraps=sum(integral.num_wraps for integral in integrals),
        num_resets=sum(integral.num_resets for integral in integrals),
        num_failed=sum(integral.num_failed for integral in integrals),
        clock_error_s=total.clock_error_s,
        right_riemann_j=math.fsum([*sums, constant_j]) if is_known and len(sums) == len(riemann) else None,
        void=tuple(sorted(total.void)),
        flags=tuple(sorted(total.flags)),
        parts=tuple(parts),
        excluded=tuple(total.excluded),
    )


def _uncertainty(parts: Sequence[EnergyPart]) -> float:
    """Half width in joules. The meters' accuracies add up: meters of one maker are wrong in one direction. The rest is
    independent.
    """
    integrals = [part.integral for part in parts if part.integral is not None]
    meters_j = math.fsum(integral.u_meter_j for integral in integrals)
    return math.hypot(meters_j, *(value for integral in integrals for value in integral.u_random_j))
