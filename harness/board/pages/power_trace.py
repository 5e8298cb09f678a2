"""Power logs of a run -> power over time, in as many steps as a chart can show. Pure.

Only meters that count towards the run's energy are drawn, so that the area under the curve is the energy shown.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.energy.clock_offset import node_clock
from harness.energy.counters import unwrap
from harness.energy.from_logs import window_ns
from harness.energy.run_energy import RunEnergy
from harness.log import keys
from harness.log.power_format import MeterSpec, NodePower, Sample
from harness.log.run_log import RunLog

NUM_STEPS = 480  # what a chart can show
LEAD_SHARE = 0.1  # of the run's length: drawn before its start and after its stop
GAP_PERIODS = 3.0  # of a slow meter: a pause of up to this many of its periods is not a gap
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Step:
    """Watts in one step of a chart: mean, minimum and maximum."""

    mean_w: float
    low_w: float
    high_w: float


@dataclass(frozen=True, slots=True)
class PowerLine:
    """Watts of one component, summed over its meters on all nodes; None where one of them has no reading."""

    name: str
    steps: tuple[Step | None, ...]


@dataclass(frozen=True, slots=True)
class PowerTrace:
    """The power of one run over time, in seconds since `run_start`. lines: by component, largest first.

    total: their sum. run_s: the end of the run.
    """

    from_s: float
    step_s: float
    run_s: float
    total: PowerLine
    lines: tuple[PowerLine, ...]

    def at(self, index: int) -> float:
        """The middle of a step, in seconds."""
        return self.from_s + (index + 0.5) * self.step_s


def power_trace(log: RunLog, energy: RunEnergy, max_gap_s: float, num_steps: int = NUM_STEPS) -> PowerTrace | None:
    """The power behind `energy`; None where no reading can be aligned with the run.

    max_gap_s: a longer time without a reading is a gap, except for a meter that is always slower than that, and for a
        counter, which shows its mean power.
    """
    window, nodes = window_ns(log), {node.node: node for node in log.nodes}
    if window is None:
        return None
    run_s = (window[1] - window[0]) / 1e9
    read: list[tuple[str, Points, bool]] = []  # component, points in seconds, is it a counter
    constants: list[tuple[str, float]] = []
    for part in energy.parts:
        if part.integral is None:
            constants.append((part.component, (part.joules or 0.0) / run_s))
        elif part.node in nodes and part.meter in nodes[part.node].specs:
            node = nodes[part.node]
            spec = node.specs[part.meter]
            points = _points(log, node, spec, window)
            if points:
                read.append((part.component, points, spec.kind == "energy_j"))
    if not read:
        return None
    lead_s = LEAD_SHARE * run_s
    from_s = max(-lead_s, min(0.0, *(points[0][0] for _, points, _ in read)))
    to_s = min(run_s + lead_s, max(run_s, *(points[-1][0] for _, points, _ in read)))
    step_s = (to_s - from_s) / num_steps
    by_component: dict[str, list[list[Step | None]]] = {}
    for component, points, is_counter in read:
        slow_s = GAP_PERIODS * statistics.median([b - a for (a, _), (b, _) in pairwise(points)] or [0.0])
        gap_s = math.inf if is_counter else max(max_gap_s, slow_s)
        steps = binned(points, from_s, step_s, num_steps, gap_s, is_counter=is_counter)
        by_component.setdefault(component, []).append(steps)
    for component, watts in constants:
        by_component.setdefault(component, []).append([Step(watts, watts, watts)] * num_steps)
    lines = [PowerLine(name, _sum(series)) for name, series in by_component.items()]
    lines.sort(key=lambda line: (-math.fsum(step.mean_w for step in line.steps if step is not None), line.name))
    return PowerTrace(from_s, step_s, run_s, PowerLine("total", _sum([line.steps for line in lines])), tuple(lines))


def binned(
    points: Points, from_s: float, step_s: float, num_steps: int, max_gap_s: float, *, is_counter: bool
) -> list[Step | None]:
    """Watts by step: linear between `points`, or a counter's mean between its readings; None in gaps.

    points: (seconds, watts) or (seconds, joules), strictly increasing in time.
    """
    area = [0.0] * num_steps
    covered = [0.0] * num_steps
    low = [math.inf] * num_steps
    high = [-math.inf] * num_steps
    to_s = from_s + num_steps * step_s
    for (left_s, left), (right_s, right) in pairwise(points):
        length_s = right_s - left_s
        if right_s <= from_s or left_s >= to_s or length_s > max_gap_s:
            continue
        if is_counter:
            left = right = (right - left) / length_s
        slope = (right - left) / length_s
        first = max(0, int((left_s - from_s) / step_s))
        last = min(num_steps - 1, int((right_s - from_s) / step_s))
        for index in range(first, last + 1):
            begin_s = max(left_s, from_s + index * step_s)
            end_s = min(right_s, from_s + (index + 1) * step_s)
            if end_s <= begin_s:
                continue
            begin_w, end_w = left + slope * (begin_s - left_s), left + slope * (end_s - left_s)
            area[index] += (begin_w + end_w) / 2 * (end_s - begin_s)
            covered[index] += end_s - begin_s
            low[index] = min(low[index], begin_w, end_w)
            high[index] = max(high[index], begin_w, end_w)
    # A step of which less than half is covered belongs to the adjacent gap.
    return [
        Step(area[index] / covered[index], low[index], high[index]) if covered[index] >= step_s / 2 else None
        for index in range(num_steps)
    ]


def _points(log: RunLog, node: NodePower, spec: MeterSpec, window: tuple[int, int]) -> Points:
    """A meter's valid readings, strictly increasing in time: seconds since `run_start`, and watts or joules."""
    readings = _rising(node.samples.get(spec.id, ()))
    if spec.kind == "energy_j":
        readings = list(unwrap(readings, spec).points)
    start_ns, stop_ns = window
    if node.dialect == "mlperf":
        start = log.first(keys.RUN_START)
        at_start_ns = start_ns if start is None else round(start.time_ms * 1e6)
        at_stop_ns = at_start_ns + stop_ns - start_ns
    else:
        clock = node_clock(node.offsets, start_ns, stop_ns)
        at_start_ns, at_stop_ns = clock.node_ns(start_ns), clock.node_ns(stop_ns)
    second_ns = (at_stop_ns - at_start_ns) / ((stop_ns - start_ns) / 1e9)
    return [((at_ns - at_start_ns) / second_ns, value) for at_ns, value in readings]


def _rising(samples: Sequence[Sample]) -> list[tuple[int, float]]:
    found: list[tuple[int, float]] = []
    for sample in samples:
        value = sample.value
        if value is None or not math.isfinite(value) or value < 0 or (found and sample.mono_ns <= found[-1][0]):
            continue
        found.append((sample.mono_ns, value))
    return found


def _sum(series: Sequence[Sequence[Step | None]]) -> tuple[Step | None, ...]:
    """Step by step; the sums of the minima and maxima bound those of the total."""
    if len(series) == 1:
        return tuple(series[0])
    found: list[Step | None] = []
    for steps in zip(*series, strict=True):
        known = [step for step in steps if step is not None]
        if len(known) < len(steps):
            found.append(None)
        else:
            found.append(
                Step(
                    math.fsum(step.mean_w for step in known),
                    math.fsum(step.low_w for step in known),
                    math.fsum(step.high_w for step in known),
                )
            )
    return tuple(found)
