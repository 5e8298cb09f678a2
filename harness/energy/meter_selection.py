"""Which meters of a node are added up, so that nothing counts twice. Pure.

A node is metered as a whole (its own sensor, a power analyser, outlets), in parts (accelerators, packages, memory), or
by a model, and often in several of these ways at once. If a meter sees the whole node, it replaces the parts; measured
parts replace a model; of several views of one device, one is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from harness.energy.integral import MeterIntegral
from harness.energy.reasons import EnergyFlag
from harness.log.power_format import Component, MeterSpec, NodePower

CLASSES = "ABCDEN"  # from the strongest to the weakest
WHOLE: tuple[Component, ...] = ("node", "pdu")
PARTS: tuple[Component, ...] = ("gpu", "cpu_package", "dram")
NEVER: dict[Component, str] = {
    "psys": "overlaps with everything on its board",
    "core": "is inside its package",
    "uncore": "is inside its package",
    "cooling": "is not part of the machine's own draw",
}
DISAGREE_FRACTION = 0.1  # one idle GPU: 187 J by its counter, 327 J by sampled power (zeus issue 181)
PARTS_EXCEED_FRACTION = 0.05  # the error that MLPerf's rules permit a meter


@dataclass(frozen=True, slots=True)
class Choice:
    """chosen: ids of the meters that are added up. excluded: why each of the others is not, by id."""

    chosen: tuple[str, ...]
    excluded: Mapping[str, str]
    flags: tuple[EnergyFlag, ...]


def choose(node: NodePower, integrals: Mapping[str, MeterIntegral]) -> Choice:
    """Choose the meters of one node that are added up. integrals: of every meter of the node, by meter id."""
    excluded: dict[str, str] = {}
    flags: set[EnergyFlag] = set()
    candidates = []
    for spec in node.specs.values():
        if spec.component in NEVER:
            excluded[spec.id] = NEVER[spec.component]
        elif spec.meter_class == "N":
            excluded[spec.id] = "measures nothing"
        else:
            candidates.append(spec)
    candidates = _one_view_each(candidates, integrals, excluded, flags)
    whole = _whole(
        [spec for spec in candidates if spec.component in WHOLE and spec.meter_class != "E"], integrals, flags
    )
    whole_ids = {spec.id for spec in whole}
    parts = [spec for spec in candidates if spec.component in PARTS]
    measured_parts = [spec for spec in parts if spec.meter_class != "E"]
    if whole:
        if _joules(measured_parts, integrals) > (1 + PARTS_EXCEED_FRACTION) * _joules(whole, integrals) > 0:
            flags.add(EnergyFlag.PARTS_EXCEED_WHOLE)
        chosen = whole
        for spec in candidates:
            if spec.id not in whole_ids and spec.component != "switch":
                excluded[spec.id] = f"the node as a whole is metered by {whole[0].id}"
    elif measured_parts:
        measured = {spec.component for spec in measured_parts}
        has_module = any(spec.component == "gpu" and spec.scope == "module" for spec in measured_parts)
        chosen = []
        for spec in candidates:
            if spec.component in WHOLE:
                excluded[spec.id] = "a model of the node, whose parts are measured"
            elif spec.meter_class == "E" and spec.component in measured:
                excluded[spec.id] = f"a model; {spec.component} is measured"
            elif has_module and spec.component in ("cpu_package", "dram"):
                excluded[spec.id] = "is inside the module that the accelerator's meter sees"
            elif spec.component in PARTS:
                chosen.append(spec)
    else:
        models = [spec for spec in candidates if spec.component in WHOLE]
        chosen = models[:1] or parts
        for spec in candidates:
            if spec not in chosen and spec.component != "switch":
                excluded[spec.id] = f"{chosen[0].id} models the node"
    chosen = [*chosen, *(spec for spec in candidates if spec.component == "switch")]
    return Choice(tuple(spec.id for spec in chosen), excluded, tuple(sorted(flags)))


def _one_view_each(
    specs: list[MeterSpec], integrals: Mapping[str, MeterIntegral], excluded: dict[str, str], flags: set[EnergyFlag]
) -> list[MeterSpec]:
    """One meter per device: the best that has joules. A meter without a device counts as a device of its own."""
    views: dict[tuple[str, str], list[MeterSpec]] = {}
    for spec in specs:
        views.setdefault((spec.component, f"device {spec.device}" if spec.device else f"id {spec.id}"), []).append(spec)
    kept = []
    for group in views.values():
        by_class = sorted(group, key=_merit)
        best = min(by_class, key=lambda spec: (integrals[spec.id].joules is None, _merit(spec)))
        if best is not by_class[0]:
            flags.add(EnergyFlag.FALLBACK)
        for spec in group:
            if spec is not best:
                excluded[spec.id] = f"another view of what {best.id} meters"
        joules = [integrals[spec.id].joules for spec in group if spec.meter_class != "E"]
        for one_j, other_j in combinations([item for item in joules if item is not None], 2):
            if abs(one_j - other_j) > DISAGREE_FRACTION * max(one_j, other_j):
                flags.add(EnergyFlag.DISAGREE)
        kept.append(best)
    return kept


def _merit(spec: MeterSpec) -> tuple[int, bool, str]:
    """Smaller is better: by class, a counter before sampled power, then by id to make the choice deterministic."""
    return CLASSES.index(spec.meter_class), spec.kind != "energy_j", spec.id


def _whole(specs: list[MeterSpec], integrals: Mapping[str, MeterIntegral], flags: set[EnergyFlag]) -> list[MeterSpec]:
    """The meters that see the whole node in one way: outlets of one kind add up, any other meter sees all of it.

    A class C or D meter of a whole node is as good as its class says: the best class that has joules is used.
    """
    ways: dict[tuple[str, str, str], list[MeterSpec]] = {}
    for spec in specs:
        family = spec.id.partition(":")[0] if spec.component == "pdu" else spec.id
        ways.setdefault((spec.component, spec.scope, family), []).append(spec)

    def merit(way: list[MeterSpec]) -> tuple[int, bool, str]:
        return max(_merit(spec) for spec in way)

    best = min(ways.values(), key=merit, default=[])
    used = min(
        ways.values(),
        key=lambda way: (any(integrals[spec.id].joules is None for spec in way), merit(way)),
        default=[],
    )
    if used != best:
        flags.add(EnergyFlag.FALLBACK)
    return used


def _joules(specs: list[MeterSpec], integrals: Mapping[str, MeterIntegral]) -> float:
    return sum(integrals[spec.id].joules or 0.0 for spec in specs)
