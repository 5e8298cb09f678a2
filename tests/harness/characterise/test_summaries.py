"""Medians, lines and the phases of a step: values that a reader can check in the head."""

from __future__ import annotations

import pytest

from harness.characterise.summaries import attributed, covered, phase_between, straight_line, summary


def test_median_and_spread() -> None:
    """One value far off moves neither; quartiles are those of the sorted values."""
    found = summary([1.0, 2.0, 3.0, 4.0, 1000.0])

    assert (found.median, found.mad, found.low, found.high, found.iqr, found.num) == (3.0, 1.0, 2.0, 4.0, 2.0, 5)


def test_a_single_value_has_no_spread() -> None:
    found = summary([7.0])

    assert (found.median, found.mad, found.iqr, found.num) == (7.0, 0.0, 0.0, 1)


def test_phases_add_up_to_the_step() -> None:
    """Also with two updates, and a loss that is computed after the forward pass."""
    marks = [
        ("begin", 0.0),
        ("forward", 1.0),
        ("backward", 3.0),
        ("backward_end", 6.0),
        ("optimizer", 7.0),
        ("optimizer_end", 9.0),
        ("forward", 12.0),
        ("backward", 13.0),
        ("backward_end", 15.0),
        ("optimizer", 15.0),
        ("optimizer_end", 16.0),
        ("end", 18.0),
    ]

    found = attributed(marks)

    assert found == {"data": 4.0, "forward": 3.0, "backward": 5.0, "optimizer": 4.0, "other": 2.0}
    assert sum(found.values()) == 18.0


@pytest.mark.parametrize(
    ("before", "after", "phase"),
    [
        ("begin", "forward", "data"),
        ("forward", "forward", "forward"),  # a network that is called twice before its loss
        ("backward_end", "forward", "data"),  # the next part of an accumulated batch
        ("backward_end", "backward", "forward"),  # a second loss
        ("begin", "backward", "forward"),  # a function of parameters, without a module
        ("backward_end", "optimizer", "optimizer"),  # clipping
        ("optimizer", "optimizer_end", "optimizer"),
        ("optimizer_end", "optimizer", "optimizer"),  # two optimizers
        ("optimizer_end", "end", "other"),
        ("begin", "end", "other"),
    ],
)
def test_every_stretch_of_time_has_a_phase(before: str, after: str, phase: str) -> None:
    assert phase_between(before, after) == phase


def test_union_of_intervals() -> None:
    """What two of them share counts once; one within another adds nothing."""
    assert covered([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.5, 1.6)]) == 4.0
    assert covered([]) == 0.0


def test_known_line() -> None:
    """Through points on a line, its intercept and slope, without doubt."""
    found = straight_line([(8.0, 26.0), (16.0, 42.0), (32.0, 74.0), (64.0, 138.0)])

    assert found is not None
    assert (found.intercept, found.slope, found.r_squared) == pytest.approx((10.0, 2.0, 1.0))
    assert found.intercept_interval == pytest.approx((10.0, 10.0), abs=1e-6)


def test_interval_of_an_intercept() -> None:
    """Against the textbook: residuals -1, 2, -1 about y = 0 + 1 x at x = -1, 0, 1 have s^2 = 6 with one degree."""
    found = straight_line([(-1.0, -2.0), (0.0, 2.0), (1.0, 0.0)])

    assert found is not None
    assert (found.intercept, found.slope) == pytest.approx((0.0, 1.0))
    half = 12.7062 * (6 / 3) ** 0.5  # Student's t with one degree of freedom, times s / sqrt(n)
    assert found.intercept_interval == pytest.approx((-half, half), rel=1e-4)
    assert found.slope_interval == pytest.approx((1 - 12.7062 * 3**0.5, 1 + 12.7062 * 3**0.5), rel=1e-4)


def test_two_points_have_no_interval_and_one_no_line() -> None:
    found = straight_line([(1.0, 3.0), (2.0, 5.0)])

    assert found is not None
    assert (found.intercept, found.slope, found.intercept_interval) == (1.0, 2.0, None)
    assert straight_line([(1.0, 3.0), (1.0, 5.0)]) is None
