"""harness.base.values: which values of unknown type are usable, at their bounds."""

from __future__ import annotations

import math

import pytest

from harness.base import values


@pytest.mark.parametrize(
    ("value", "is_number", "is_whole", "finite"),
    [
        (0, True, True, 0.0),
        (-1.5, True, False, -1.5),
        (1.0, True, False, 1.0),
        (10**400, True, True, None),
        (math.nan, True, False, None),
        (-math.inf, True, False, None),
        (True, False, False, None),
        ("1", False, False, None),
        (None, False, False, None),
    ],
)
def test_a_truth_value_or_a_text_is_not_a_number(
    value: object, is_number: bool, is_whole: bool, finite: float | None
) -> None:
    """Nor is an infinity or NaN finite."""
    assert values.is_number(value) is is_number
    assert values.is_whole(value) is is_whole
    assert values.finite_number(value) == finite


@pytest.mark.parametrize(
    ("value", "bounded"),
    [(1e15, 1e15), (-(10**15), -1e15), (1.1e15, None), (10**400, None), (math.nan, None), (True, None), ("1", None)],
)
def test_a_reading_has_a_bound(value: object, bounded: float | None) -> None:
    """Nothing measured is beyond 1e15."""
    assert values.bounded_number(value) == bounded


@pytest.mark.parametrize(
    ("value", "stored"), [(0, 0), (7.9, 7), (2**53 - 1, 2**53 - 1), (2**53, None), (-1, None), (math.inf, None)]
)
def test_a_store_holds_whole_numbers_below_2_to_the_53(value: object, stored: int | None) -> None:
    """Beyond that a float does not hold each of them."""
    assert values.storable_int(value) == stored


@pytest.mark.parametrize(
    ("value", "digits", "positive"),
    [
        ("8", 8, 8),
        ("0", 0, None),
        ("999999999", 999_999_999, 999_999_999),
        ("1000000000", None, None),
        ("٣", None, None),
        ("", None, None),
        ("1\n", None, None),
        (" 1", None, None),
        (-1, None, None),
        (8, None, 8),
        (10**10, None, 10**10),
        (0, None, None),
        (8.0, None, None),
        (True, None, None),
    ],
)
def test_a_count_is_written_as_digits_or_as_a_whole_number(
    value: object, digits: int | None, positive: int | None
) -> None:
    """At most nine ASCII digits, as MLPerf's descriptions have them; a whole number may be larger."""
    assert values.int_of_digits(value) == digits
    assert values.positive_int(value) == positive


@pytest.mark.parametrize(
    ("value", "is_fit"), [("x", True), ("x" * 500, True), ("x" * 501, False), ("", False), ("a\nb", False), (1, False)]
)
def test_a_short_text_fits_on_a_line(value: object, is_fit: bool) -> None:
    """At most 500 printable characters."""
    assert values.short_text(value) == (value if is_fit else None)


def test_anything_but_a_mapping_is_an_empty_one() -> None:
    """Even a list of pairs."""
    assert values.mapping_or_empty({"a": 1}) == {"a": 1}
    assert values.mapping_or_empty([("a", 1)]) == {}
