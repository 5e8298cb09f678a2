"""What runs can show before any is made: the power of the verdict, and how many runs it takes. Pure.

By simulation with a fixed seed: the same plan always promises the same.
"""

from __future__ import annotations

import functools
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.scoring.non_inferiority import LOOKS, Scatter, Status, judge

NUM_DRAWS = 8000  # a share is then known to 0.6 points, one standard error at a half; with 2000, 3 points were exceeded


@dataclass(frozen=True, slots=True)
class Prospect:
    """What happens if the true ratio of new to claimed samples is `ratio`.

    shares: of the verdicts. reproduced_by: the share that is reproduced at this look or before, by number of runs.
    num_runs: mean number of runs until the verdict.
    """

    ratio: float
    shares: dict[Status, float]
    reproduced_by: dict[int, float]
    num_runs: float


@functools.lru_cache(64)
def prospect(
    num_claimed: int,
    scatter: Scatter,
    tolerance: float,
    looks: tuple[int, ...] = LOOKS,
    ratio: float = 1.0,
    num_draws: int = NUM_DRAWS,
) -> Prospect:
    """Return what `judge` would say of `num_draws` claims of that many runs, each reproduced with new runs.

    scatter: of the reference; the logarithms of claimed and new runs are normal with its variance.
    """
    chance = random.Random(f"{num_claimed} {scatter} {tolerance} {looks} {ratio}")  # noqa: S311  (a simulation)
    deviation = math.sqrt(scatter.variance)
    ends: Counter[tuple[Status, int]] = Counter()
    for _ in range(num_draws):
        claimed = _drawn(chance, num_claimed, 0.0, deviation)
        new = _drawn(chance, looks[-1], math.log(ratio), deviation)
        verdict = judge(claimed, new, scatter, tolerance, looks)
        ends[verdict.status, verdict.num_runs] += 1
    shares: dict[Status, float] = {"reproduced": 0.0, "not reproduced": 0.0, "inconclusive": 0.0}
    for (status, _), number in ends.items():
        shares[status] += number / num_draws
    by = {
        look: sum(number for (status, runs), number in ends.items() if status == "reproduced" and runs <= look)
        / num_draws
        for look in looks
    }
    mean = math.fsum(runs * number for (_, runs), number in ends.items()) / num_draws
    return Prospect(ratio, shares, by, mean)


def _drawn(chance: random.Random, number: int, mean: float, deviation: float) -> Sequence[float]:
    return [math.exp(chance.gauss(mean, deviation)) for _ in range(number)]
