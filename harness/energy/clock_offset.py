"""A node's clock against the referee's, from round trips: offset, linear drift, and residual error. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.log.power_format import ClockOffset

MAX_DRIFT = 500e-6  # the most that NTP slews a clock by; a steeper line is a jump, not a drift
UNKNOWN_DRIFT = 100e-6  # for two quartz clocks compared only once: about 50 ppm each
UNKNOWN_ERROR_S = 0.4  # for a node that logs no offset: the limit for NTP in MLPerf's inference power flow


@dataclass(frozen=True, slots=True)
class NodeClock:
    """Node's time - referee's time = offset_ns + drift x (node's time - at_ns).

    error_s: how far the two clocks may be apart after correction: what a line through the measurements does not
        explain, plus half the fastest round trip. is_known: whether there was a measurement at all.
    """

    at_ns: int
    offset_ns: int
    drift: float
    error_s: float
    is_known: bool

    def node_ns(self, referee_ns: int) -> int:
        """The node's time at the referee's time `referee_ns`."""
        since_ns = referee_ns + self.offset_ns - self.at_ns
        return self.at_ns + round(since_ns / (1 - self.drift))


def node_clock(offsets: Sequence[ClockOffset], start_ns: int, stop_ns: int) -> NodeClock:
    """Fit the clock of a node to its measured offsets, for a run from `start_ns` to `stop_ns` of the referee's clock.

    Least squares, weighted by the speed of the round trip. Without a measurement, the offset is taken to be 0 and the
    error to be UNKNOWN_ERROR_S.
    """
    if not offsets:
        return NodeClock(0, 0, 0.0, UNKNOWN_ERROR_S, is_known=False)
    best = min(offsets, key=lambda item: item.round_trip_ns)
    weights = [1 / (item.round_trip_ns + 10_000) ** 2 for item in offsets]
    times = [float(item.mono_ns - best.mono_ns) for item in offsets]
    values = [float(item.offset_ns - best.offset_ns) for item in offsets]
    total = math.fsum(weights)
    mean_time = math.fsum(w * t for w, t in zip(weights, times, strict=True)) / total
    mean_value = math.fsum(w * v for w, v in zip(weights, values, strict=True)) / total
    spread = math.fsum(w * (t - mean_time) ** 2 for w, t in zip(weights, times, strict=True))
    drift = 0.0
    if spread > 0 and max(times) - min(times) >= 1e9:
        joint = zip(weights, times, values, strict=True)
        drift = math.fsum(w * (t - mean_time) * (v - mean_value) for w, t, v in joint) / spread
    is_jump = abs(drift) > MAX_DRIFT
    drift = 0.0 if is_jump else drift
    at_ns, offset_ns = best.mono_ns + round(mean_time), best.offset_ns + round(mean_value)
    unexplained_ns = max(
        abs(value - mean_value - drift * (time - mean_time)) - item.round_trip_ns / 2
        for item, time, value in zip(offsets, times, values, strict=True)
    )
    error_s = (max(0.0, unexplained_ns) + best.round_trip_ns / 2) / 1e9
    if max(times) - min(times) < 1e9:
        farthest_ns = max(abs(edge_ns + offset_ns - at_ns) for edge_ns in (start_ns, stop_ns))
        error_s += UNKNOWN_DRIFT * farthest_ns / 1e9
    return NodeClock(at_ns, offset_ns, drift, error_s, is_known=True)
