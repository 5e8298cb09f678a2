"""The energy of a run by MLPerf's two formulas, for comparison with what was published; none of them ranks. Pure.

`published` is what the published program of May 2024 computes (mlcommons/logging 4054425): the mean power over the
whole logged window, with the idle time before and after, times the time to train. `rule` is the text of the rule: each
reading times the time since the previous one, over the readings that cover the timed portion.

Source: mlcommons/training_policies, power_measurement.adoc, "Scoring"; mlcommons/logging, result_summarizer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

from harness.errors import LogError
from harness.log.power_format import NodePower

Formula = Literal["published", "rule"]


def run_joules(formula: Formula, nodes: Sequence[NodePower], start_ns: int, stop_ns: int) -> float:
    """Return the energy of the run from `start_ns` to `stop_ns` of wall time; nodes and switches add up.

    Raises:
        LogError: the stop is not after the start, or a node has no readings to apply the formula to.
    """
    if stop_ns <= start_ns:
        raise LogError(f"energy: the run starts at {start_ns} ns and stops at {stop_ns} ns")
    of_node: dict[Formula, Callable[[NodePower, int, int], float]] = {
        "published": published_node_joules,
        "rule": rule_node_joules,
    }
    measured = [of_node[formula](node, start_ns, stop_ns) for node in nodes if any(node.samples.values())]
    length_s = (stop_ns - start_ns) / 1e9
    estimated = [_eff(node) * node.interconnect_w * length_s for node in nodes if node.interconnect_w is not None]
    if not measured:
        raise LogError("energy: no node of the run has a power reading")
    return math.fsum([*measured, *estimated])


def published_node_joules(node: NodePower, start_ns: int, stop_ns: int) -> float:
    """conversion_eff x sum(P_i x (t_i - t_before)) x time to train / (last reading - measurement start).

    The first reading reaches back to `power_measurement_start`; readings are taken in the order of the file, so that
    a time that goes back subtracts. The window ends with the last reading: in most published logs the stop has the
    time of the start.

    Raises:
        LogError: there is no `power_measurement_start`, or nothing after it.
    """
    readings = _readings(node)
    if node.start_ns is None or not readings or readings[-1][0] <= node.start_ns:
        raise LogError(f"{node.path}: has no readings after a power_measurement_start")
    before_ns, area = node.start_ns, []
    for at_ns, power_w in readings:
        area.append(power_w * (at_ns - before_ns))
        before_ns = at_ns
    window_ns = before_ns - node.start_ns
    return _eff(node) * math.fsum(area) * ((stop_ns - start_ns) / window_ns) / 1e9


def rule_node_joules(node: NodePower, start_ns: int, stop_ns: int) -> float:
    """conversion_eff x sum(P_i x (t_i - t_before)) over the timed portion: its first and last reading
    count only as far as they are in it. Readings that go back are left out; none is held beyond the last.

    Raises:
        LogError: the node has no readings.
    """
    readings = _readings(node)
    if not readings:
        raise LogError(f"{node.path}: has no readings")
    rising = [readings[0]]
    for reading in readings[1:]:
        if reading[0] > rising[-1][0]:
            rising.append(reading)
    area = [
        power_w * max(0, min(at_ns, stop_ns) - max(before_ns, start_ns))
        for (before_ns, _), (at_ns, power_w) in pairwise(rising)
    ]
    return _eff(node) * math.fsum(area) / 1e9


def _readings(node: NodePower) -> list[tuple[int, float]]:
    """(nanoseconds, watts) of the node's power meter, in the order of the file; failed reads left out.

    Raises:
        LogError: it has several; the formulas are for one.
    """
    series = [name for name, spec in node.specs.items() if spec.kind == "power_w" and node.samples.get(name)]
    if len(series) > 1:
        raise LogError(f"{node.path}: {len(series)} power meters; MLPerf's formulas are for one per file")
    samples = node.samples[series[0]] if series else ()
    return [(sample.mono_ns, sample.value) for sample in samples if sample.value is not None]


def _eff(node: NodePower) -> float:
    return 1.0 if node.conversion_eff is None else node.conversion_eff
