"""How surely a target is reached, and how firmly, by full-length runs."""

from __future__ import annotations

import pytest

from harness.scoring.target import stability
from harness.workload import Metric

UP = Metric("accuracy", "fraction", "max")


def curve(*qualities: float) -> list[tuple[int, float]]:
    return [(1000 * number, quality) for number, quality in enumerate(qualities, 1)]


@pytest.mark.parametrize(
    ("num_reached", "num_missed", "bound"), [(20, 0, 0.1391), (10, 0, 0.2589), (9, 1, 0.3942), (0, 3, 1.0)]
)
def test_the_miss_rate_has_an_upper_bound(num_reached: int, num_missed: int, bound: float) -> None:
    """1 - 0.05 ** (1 / n) without a miss; by Clopper and Pearson's table with one; 1 if nothing reaches the target."""
    found = stability([curve(0.5, 0.9)] * num_reached + [curve(0.5, 0.6)] * num_missed, UP, 0.8)

    assert (found.num_seeds, found.num_reached) == (num_reached + num_missed, num_reached)
    assert found.miss_bound == pytest.approx(bound, abs=1e-4)


def test_a_target_is_confirmed_where_more_than_a_tenth_fall_below_it() -> None:
    """One in ten may; a run that ends with the deciding evaluation says nothing; a confirmed hit is followed later."""
    firm, fallen, last = curve(0.5, 0.8, 0.8), curve(0.5, 0.8, 0.7), curve(0.5, 0.5, 0.8)

    tenth = stability([firm] * 9 + [fallen, last], UP, 0.8)
    more = stability([firm] * 8 + [fallen, last], UP, 0.8)
    confirmed = stability([curve(0.8, 0.7, 0.8, 0.9, 0.7)], UP, 0.8, confirm=1)

    assert (tenth.num_followed, tenth.num_fallen, tenth.needs_confirmation) == (10, 1, False)
    assert (more.num_followed, more.num_fallen, more.needs_confirmation) == (9, 1, True)
    assert (confirmed.num_followed, confirmed.num_fallen) == (1, 1)
