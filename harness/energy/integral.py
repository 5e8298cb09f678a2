"""One meter's energy over a period, and how well it is known. Pure.

Power is integrated by the trapezoidal rule, and interpolated linearly to exactly the start and the stop, on the
monotonic clock of the meter's node. Counters are subtracted: nothing is lost between two readings, so two that bracket
a run measure it. Of the joules between the last reading before an edge and the first one after it, the run is given
its share by time, or what it would have drawn at its mean power (over the intervals that are wholly in it), whichever
is more; if no interval is wholly in it, all of them. The machine idles before and after, so anything less would make a
run that is rarely read look frugal.

Readings farther out change nothing. If the readings begin late or end early, the nearest power is held up to the edge;
`coverage` says how much is held.

Uncertainties are half widths of 95 % intervals, in joules; they are independent, and add in squares:

    u_meter     accuracy_pct of the joules, as the maker or a calibration states it. Undeclared: 5 %, which MLPerf
                requires of a meter; for a model 40 % (Fischer, arXiv 2509.22092: models are off by up to that).
    u_sampling  what the power does between readings: the larger difference between the trapezoid and the two
                trapezoids over every other reading. 0 for a counter.
    u_edge      of a counter, at either edge: how far the run's share of a cut interval can be from the least and the
                most that it may have drawn there, if the power on both sides is at most the greatest seen, or twice the
                mean of the interval. For a held edge, from no power to the greatest seen. The two edges add up.
    u_counter   of a counter: its resolution, and the power for as long as its value may be old (`averaging_s`).
    u_sync      the clocks: their error at either edge (`sync_s`) times the power there.
    u_gap       time without readings of power: held edges, and steps of over two periods. Half the difference between
                the least and the greatest power seen, times their length, adding in squares.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from harness.energy.counters import unwrap
from harness.errors import LogError
from harness.log.power_format import MeterSpec, Sample

UNDECLARED_PCT = 5.0
UNDECLARED_MODEL_PCT = 40.0
Points = Sequence[tuple[float, float]]  # (seconds, watts), or (seconds, joules since the first)


@dataclass(frozen=True, slots=True)
class MeterIntegral:
    """What one meter gives for the time from a start to a stop.

    joules, mean_w: None if fewer than two good readings bear on that time, or if a counter was reset or may have
        wrapped unseen in it.
    right_riemann_j: MLPerf's sum, with each reading held back to the previous one, cut at start and stop; for power
        meters only, and nothing is held beyond the readings.
    is_counter: whether it counts joules, so that nothing is lost between two readings.
    coverage: share of the time between the first and the last reading, 0 to 1.
    longest_gap_s: longest time that is not metered: without a good reading, edges included; for a counter the edges
        alone. median_step_s: None with fewer than two.
    num_samples: good readings from start to stop, both included. num_failed: reads that gave nothing or garbage.
    num_duplicates: readings with the same time as the previous one, left out. num_backwards: readings earlier than
        a previous one, left out; a clock that steps back makes all the other times doubtful.
    num_wraps, num_resets, num_unsure: of a counter, within that time; unsure: a second wrap may be hidden.
    start_w, stop_w: power at the edges.
    """

    joules: float | None
    mean_w: float | None
    right_riemann_j: float | None
    coverage: float
    longest_gap_s: float
    median_step_s: float | None
    num_samples: int
    is_counter: bool = False
    num_failed: int = 0
    num_duplicates: int = 0
    num_backwards: int = 0
    num_wraps: int = 0
    num_resets: int = 0
    num_unsure: int = 0
    start_w: float | None = None
    stop_w: float | None = None
    u_meter_j: float = 0.0
    u_sampling_j: float = 0.0
    u_edge_j: float = 0.0
    u_counter_j: float = 0.0
    u_sync_j: float = 0.0
    u_gap_j: float = 0.0

    @property
    def uncertainty_j(self) -> float | None:
        """Half width of the 95 % interval; None without joules."""
        if self.joules is None:
            return None
        return math.hypot(self.u_meter_j, *self.u_random_j)

    @property
    def u_random_j(self) -> tuple[float, ...]:
        """All its uncertainties but the meter's own, which other meters of its kind share."""
        return self.u_sampling_j, self.u_edge_j, self.u_counter_j, self.u_sync_j, self.u_gap_j


def integrate_meter(
    spec: MeterSpec, samples: Sequence[Sample], start_ns: int, stop_ns: int, *, sync_s: float = 0.0
) -> MeterIntegral:
    """Return the energy that the meter saw from `start_ns` to `stop_ns`, both on the clock of the samples.

    sync_s: how far that clock may be from the run's clock.

    Raises:
        LogError: the stop is not after the start, or a sample is negative or not finite.
    """
    if stop_ns <= start_ns:
        raise LogError(f"energy: the run starts at {start_ns} ns and stops at {stop_ns} ns")
    series = _ordered(spec, samples)
    good = series.good
    wraps = resets = unsure = garbage = 0
    is_counter = spec.kind == "energy_j"
    if is_counter:
        counted = unwrap(good, spec)
        wraps, resets, unsure = (
            sum(from_ns < stop_ns and to_ns > start_ns for from_ns, to_ns in found)
            for found in (counted.wraps, counted.resets, counted.unsure)
        )
        garbage = sum(start_ns <= at_ns <= stop_ns for at_ns in counted.garbage)
        good = list(counted.points)
    times = [at_ns for at_ns, _ in good]
    inside = good[max(0, bisect_right(times, start_ns) - 1) : bisect_left(times, stop_ns) + 1]
    num_samples = sum(start_ns <= at_ns <= stop_ns for at_ns, _ in inside)
    length_s = (stop_ns - start_ns) / 1e9
    points = [((at_ns - start_ns) / 1e9, value) for at_ns, value in inside]
    touches = num_samples > 0 or len(points) > 1  # one before the start and one after the stop
    covered_s = min(points[-1][0], length_s) - max(points[0][0], 0.0) if touches else 0.0
    steps_s = [later[0] - earlier[0] for earlier, later in pairwise(points)]
    gaps_s = [points[0][0], length_s - points[-1][0]] if touches else [length_s]
    seen = MeterIntegral(
        joules=None,
        mean_w=None,
        right_riemann_j=None,
        coverage=covered_s / length_s,
        longest_gap_s=max(0.0, *gaps_s, *([] if is_counter else steps_s)),
        median_step_s=statistics.median(steps_s) if steps_s else None,
        num_samples=num_samples,
        is_counter=is_counter,
        num_failed=sum(start_ns <= at_ns <= stop_ns for at_ns in series.failed) + garbage,
        num_duplicates=sum(start_ns <= at_ns <= stop_ns for at_ns in series.duplicates),
        num_backwards=sum(start_ns <= at_ns <= stop_ns for at_ns in series.backwards),
        num_wraps=wraps,
        num_resets=resets,
        num_unsure=unsure,
    )
    if not points or points[0][0] == points[-1][0] or resets or unsure:
        return seen
    return _with_joules(seen, spec, points, length_s, sync_s)


@dataclass(slots=True)
class _Series:
    """Readings in strictly increasing time, and the times of the ones left out, in nanoseconds."""

    good: list[tuple[int, float]]
    failed: list[int]
    duplicates: list[int]
    backwards: list[int]


def _ordered(spec: MeterSpec, samples: Sequence[Sample]) -> _Series:
    series = _Series([], [], [], [])
    latest_ns: int | None = None
    for sample in samples:
        value = sample.value
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise LogError(f"energy: {spec.id} reads {value} at {sample.mono_ns} ns; it must be finite and from 0 up")
        if latest_ns is not None and sample.mono_ns <= latest_ns:
            (series.duplicates if sample.mono_ns == latest_ns else series.backwards).append(sample.mono_ns)
            continue
        if value is None:
            series.failed.append(sample.mono_ns)
            continue
        latest_ns = sample.mono_ns
        series.good.append((sample.mono_ns, value))
    return series


def _with_joules(seen: MeterIntegral, spec: MeterSpec, points: Points, length_s: float, sync_s: float) -> MeterIntegral:
    found = _counted(seen, spec, points, length_s) if seen.is_counter else _integrated(seen, spec, points, length_s)
    assert found.joules is not None
    assert found.start_w is not None
    assert found.stop_w is not None
    undeclared_pct = UNDECLARED_MODEL_PCT if spec.meter_class == "E" else UNDECLARED_PCT
    return replace(
        found,
        mean_w=found.joules / length_s,
        u_meter_j=found.joules * (spec.accuracy_pct or undeclared_pct) / 100,
        u_sync_j=sync_s * math.hypot(found.start_w, found.stop_w),
    )


def _counted(seen: MeterIntegral, spec: MeterSpec, points: Points, length_s: float) -> MeterIntegral:
    """The joules of a counter from 0 to `length_s`, and how wrong they may be."""
    intervals = [(a, b, after_j - before_j) for (a, before_j), (b, after_j) in pairwise(points) if a < b]
    powers = [joules / (to_s - from_s) for from_s, to_s, joules in intervals]
    inner = [(to_s - from_s, joules) for from_s, to_s, joules in intervals if from_s >= 0 and to_s <= length_s]
    run_w = math.fsum(joules for _, joules in inner) / math.fsum(s for s, _ in inner) if inner else math.inf
    parts, errors = [joules for _, joules in inner], []
    for (from_s, to_s, joules), power_w in zip(intervals, powers, strict=True):
        if from_s < 0 or to_s > length_s:
            inside_s = min(to_s, length_s) - max(from_s, 0.0)
            outside_s, most_w = to_s - from_s - inside_s, max(2 * power_w, *powers)
            share_j = min(joules, max(power_w, run_w) * inside_s)
            least_j, most_j = max(0.0, joules - most_w * outside_s), min(joules, most_w * inside_s)
            parts.append(share_j)
            errors.append(max(share_j - least_j, most_j - share_j))
    for late_s, power_w in ((points[0][0], powers[0]), (length_s - points[-1][0], powers[-1])):
        held_s = max(0.0, late_s)
        parts.append(held_s * power_w)
        errors.append(held_s * max(power_w, max(powers) - power_w))
    return replace(
        seen,
        joules=math.fsum(parts),
        start_w=powers[0],
        stop_w=powers[-1],
        u_edge_j=math.fsum(errors),
        u_counter_j=math.hypot(spec.resolution_j, spec.averaging_s * max(powers[0], powers[-1])),
    )


def _integrated(seen: MeterIntegral, spec: MeterSpec, points: Points, length_s: float) -> MeterIntegral:
    """The joules of sampled power from 0 to `length_s`, and how wrong they may be."""
    start_w, stop_w = _power_at(points, 0.0), _power_at(points, length_s)
    held_s = [max(0.0, points[0][0]), max(0.0, length_s - points[-1][0])]
    gaps_s = [
        right_s - left_s
        for left_s, right_s in ((max(a, 0.0), min(b, length_s)) for (a, _), (b, _) in pairwise(points))
        if right_s - left_s > 2 * spec.period_s
    ]
    span_w = max(power_w for _, power_w in points) - min(power_w for _, power_w in points)
    return replace(
        seen,
        joules=_trapezoid(points, length_s) + math.fsum([held_s[0] * start_w, held_s[1] * stop_w]),
        right_riemann_j=_right_riemann(points, length_s),
        start_w=start_w,
        stop_w=stop_w,
        u_sampling_j=_sampling_uncertainty(points, length_s),
        u_gap_j=span_w / 2 * math.hypot(*held_s, *gaps_s),
    )


def _trapezoid(points: Points, length_s: float) -> float:
    """Area under the polygon through `points`, cut at 0 and `length_s`."""
    areas = []
    for (from_s, from_w), (to_s, to_w) in pairwise(points):
        left_s, right_s = max(from_s, 0.0), min(to_s, length_s)
        if left_s < right_s:
            middle_w = from_w + (to_w - from_w) / (to_s - from_s) * ((left_s + right_s) / 2 - from_s)
            areas.append(middle_w * (right_s - left_s))
    return math.fsum(areas)


def _right_riemann(points: Points, length_s: float) -> float:
    return math.fsum(to_w * (min(to_s, length_s) - max(from_s, 0.0)) for (from_s, _), (to_s, to_w) in pairwise(points))


def _power_at(points: Points, at_s: float) -> float:
    """Watts at `at_s` on the polygon through `points`; outside, that of the nearest end."""
    if at_s <= points[0][0]:
        return points[0][1]
    for (from_s, from_value), (to_s, to_value) in pairwise(points):
        if at_s <= to_s:
            return from_value + (to_value - from_value) * (at_s - from_s) / (to_s - from_s)
    return points[-1][1]


def _sampling_uncertainty(points: Points, length_s: float) -> float:
    whole_j = _trapezoid(points, length_s)
    halves = ([points[0], *points[first:-1:2], points[-1]] for first in (1, 2))
    return max(abs(_trapezoid(half, length_s) - whole_j) for half in halves)
