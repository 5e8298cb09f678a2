"""Joules of one trace of power, as run logs without power logs of their own have them. Pure.

`harness.energy.accounting.run_energy` replaces it: with meters, nodes, void conditions and an uncertainty. It stays
for logs whose `power_reading` lines stand in the run log itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from harness.errors import LogError

EnergySource = Literal["measured", "estimated", "none"]


@dataclass(frozen=True, slots=True)
class EnergyReading:
    """The energy of one run, and how well it is known.

    joules: None unless samples reach from `run_start` to `run_stop`.
    source: what the samples are; an estimate never ranks against a measurement.
    scope: what was metered, in words ("node, DC side"); only equal scopes can be compared.
    sample_hz: mean rate of the samples that touch the run; None with fewer than two of them.
    coverage: share of the run that lies between the first and the last sample, 0 to 1.
    longest_gap_s: longest time without a sample, in seconds; the whole run where there is none.
    num_samples: samples from `run_start` to `run_stop`, both ends included.
    """

    joules: float | None
    source: EnergySource
    scope: str
    sample_hz: float | None
    coverage: float
    longest_gap_s: float
    num_samples: int


def integrate(
    samples: Sequence[tuple[float, float]],
    start_s: float,
    stop_s: float,
    *,
    source: EnergySource = "none",
    scope: str = "none",
) -> EnergyReading:
    """Trapezoid over `samples`, interpolated onto exactly `start_s` and `stop_s`.

    What was drawn before and after changes nothing. Nothing is extrapolated: the meter must be read at or
    before `start_s` and at or after `stop_s`, or there are no joules; a fraction of a run's energy would
    look like a frugal run.

    Args:
        samples: (seconds, watts), in order of time, on the clock of `start_s` and `stop_s`.
        start_s: `run_start`, monotonic seconds.
        stop_s: `run_stop`, monotonic seconds.
        source: what the samples are.
        scope: what they meter.

    Raises:
        LogError: `stop_s` is not after `start_s`, a sample is not after the one before it, or a power is
            negative or not finite.

    Source: MLPerf training rules, power measurement ("readings covering the timed portion"); the sum over
    right ends in there is replaced by the trapezoid, which is exact where the power is linear.
    """
    if not (math.isfinite(start_s) and math.isfinite(stop_s) and start_s < stop_s):
        raise LogError(f"energy: the run starts at {start_s} s and stops at {stop_s} s")
    _refuse_disorder(samples)
    touching = _touching(samples, start_s, stop_s)
    if not touching:
        return EnergyReading(None, source, scope, None, 0.0, stop_s - start_s, 0)
    first_s, last_s = touching[0][0], touching[-1][0]
    gaps_s = [later[0] - earlier[0] for earlier, later in pairwise(touching)]
    covered_s = min(last_s, stop_s) - max(first_s, start_s)
    is_covered = first_s <= start_s and last_s >= stop_s
    return EnergyReading(
        joules=_joules(touching, start_s, stop_s) if is_covered else None,
        source=source,
        scope=scope,
        sample_hz=len(gaps_s) / (last_s - first_s) if gaps_s else None,
        coverage=1.0 if is_covered else covered_s / (stop_s - start_s),
        longest_gap_s=max([*gaps_s, first_s - start_s, stop_s - last_s]),
        num_samples=sum(start_s <= at_s <= stop_s for at_s, _ in touching),
    )


def _refuse_disorder(samples: Sequence[tuple[float, float]]) -> None:
    before_s = -math.inf
    for number, (at_s, power_w) in enumerate(samples, 1):
        if not math.isfinite(at_s) or at_s <= before_s:
            raise LogError(f"energy: sample {number} is at {at_s} s, not after the one before it ({before_s} s)")
        if not math.isfinite(power_w) or power_w < 0:
            raise LogError(f"energy: sample {number} at {at_s} s has {power_w} W; a power is finite and not negative")
        before_s = at_s


def _touching(samples: Sequence[tuple[float, float]], start_s: float, stop_s: float) -> list[tuple[float, float]]:
    """The samples of the run, with the last one at or before its start and the first one at or after its stop.

    Empty if all lie on one side of the run: a meter read only before it says nothing of it.
    """
    before = [sample for sample in samples if sample[0] <= start_s][-1:]
    inside = [sample for sample in samples if start_s < sample[0] < stop_s]
    after = [sample for sample in samples if sample[0] >= stop_s][:1]
    touches = inside or (before and after) or any(sample[0] in (start_s, stop_s) for sample in [*before, *after])
    return [*before, *inside, *after] if touches else []


def _joules(samples: Sequence[tuple[float, float]], start_s: float, stop_s: float) -> float:
    """Area under the polygon through `samples`, cut at `start_s` and `stop_s`, which it reaches."""
    areas = []
    for (from_s, from_w), (to_s, to_w) in pairwise(samples):
        left_s, right_s = max(from_s, start_s), min(to_s, stop_s)
        slope = (to_w - from_w) / (to_s - from_s)
        mean_w = from_w + slope * ((left_s + right_s) / 2 - from_s)
        areas.append(mean_w * (right_s - left_s))
    return math.fsum(areas)
