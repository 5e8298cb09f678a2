"""Which meters of a node are added up, so that nothing counts twice. Pure.

A node is metered as a whole (its own sensor, an analyser, outlets), in parts (accelerators, packages, memory), or by a
model, and often in several of these ways at once. The whole, where a meter sees it, replaces the parts;
measured parts replace a model; of several views of one device one is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from harness.energy.integral import MeterIntegral
from harness.log.power_format import Component, MeterSpec, NodePower

CLASSES = "ABCDEN"  # from the strongest to the weakest
WHOLE: tuple[Component, ...] = ("node", "pdu")
PARTS: tuple[Component, ...] = ("gpu", "cpu_package", "dram")
NEVER: dict[Component, str] = {
    "psys": "overlaps with everything on its board",
    "core": "lies inside its package",
    "uncore": "lies inside its package",
    "cooling": "is not the machine's own draw",
}
DISAGREE_FRACTION = 0.1  # a counter and sampled power of one idle GPU have been seen at 187 and 327 J (zeus issue 181)
PARTS_EXCEED_FRACTION = 0.05  # what a meter may be wrong by, in MLPerf's rule


@dataclass(frozen=True, slots=True)
class Choice:
    """chosen: ids of the meters that are added up. excluded: why each of the others is not, by id.

    flags: "disagree" (two views of one device differ by more than a tenth), "fallback" (the better view of a device
    or node gave no joules), "parts_exceed_whole" (the parts draw more than the node they are in).
    """

    chosen: tuple[str, ...]
    excluded: Mapping[str, str]
    flags: tuple[str, ...]


def choose(node: NodePower, integrals: Mapping[str, MeterIntegral]) -> Choice:
    """The meters of one node that are added up; `integrals` by meter id, of every meter of the node."""
    excluded: dict[str, str] = {}
    flags: set[str] = set()
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
            flags.add("parts_exceed_whole")
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
                excluded[spec.id] = "lies inside the module that the accelerator's meter sees"
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
    specs: list[MeterSpec], integrals: Mapping[str, MeterIntegral], excluded: dict[str, str], flags: set[str]
) -> list[MeterSpec]:
    """One meter for every device: the best that has joules. A meter without a device is one of its own."""
    views: dict[tuple[str, str], list[MeterSpec]] = {}
    for spec in specs:
        views.setdefault((spec.component, f"device {spec.device}" if spec.device else f"id {spec.id}"), []).append(spec)
    kept = []
    for group in views.values():
        by_class = sorted(group, key=_merit)
        best = min(by_class, key=lambda spec: (integrals[spec.id].joules is None, _merit(spec)))
        if best is not by_class[0]:
            flags.add("fallback")
        for spec in group:
            if spec is not best:
                excluded[spec.id] = f"another view of what {best.id} meters"
        joules = [integrals[spec.id].joules for spec in group if spec.meter_class != "E"]
        for one_j, other_j in combinations([item for item in joules if item is not None], 2):
            if abs(one_j - other_j) > DISAGREE_FRACTION * max(one_j, other_j):
                flags.add("disagree")
        kept.append(best)
    return kept


def _merit(spec: MeterSpec) -> tuple[int, bool, str]:
    """Smaller is better: class, a counter before sampled power, then the id, so that the choice is always the same."""
    return CLASSES.index(spec.meter_class), spec.kind != "energy_j", spec.id


def _whole(specs: list[MeterSpec], integrals: Mapping[str, MeterIntegral], flags: set[str]) -> list[MeterSpec]:
    """The meters that see the whole node, in one way: outlets of one kind add up, other meters are views of it all.

    A C or D meter of a whole node is as good as its class says: the best class that has joules is taken.
    """
    ways: dict[tuple[str, str, str], list[MeterSpec]] = {}
    for spec in specs:
        family = spec.id.partition(":")[0] if spec.component == "pdu" else spec.id
        ways.setdefault((spec.component, spec.scope, family), []).append(spec)

    def merit(way: list[MeterSpec]) -> tuple[int, bool, str]:
        return max(_merit(spec) for spec in way)

    best = min(ways.values(), key=merit, default=[])
    taken = min(
        ways.values(),
        key=lambda way: (any(integrals[spec.id].joules is None for spec in way), merit(way)),
        default=[],
    )
    if taken != best:
        flags.add("fallback")
    return taken


def _joules(specs: list[MeterSpec], integrals: Mapping[str, MeterIntegral]) -> float:
    return sum(integrals[spec.id].joules or 0.0 for spec in specs)
