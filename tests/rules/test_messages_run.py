"""What the checks of runs, systems and prices say: the numbers, and what differs from what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.cost.price_book import PriceBook, PriceBooks
from tests.fabricate import find
from tests.rules.box import DAY_MS, Box, ranks
from tests.rules.fixtures.cst import FIRST, ROWS, SECOND, priced
from tests.rules.fixtures.run import CURVE, copied, curves, stretched
from tests.rules.test_check_messages import messages


def test_libraries_that_differ_are_told_and_no_others(tmp_path: Path) -> None:
    """Each with both versions; one that a run has not stands on the other side only."""
    box = Box(tmp_path)
    for steps in box.runs:
        find(steps, "tta_world").value = ranks(1, versions={"torch": "2.14.1", "numpy": "2.3", "python": "3.11"})
    find(box.runs[2], "tta_world").value = ranks(1, versions={"torch": "2.14.1", "numpy": "2.4"})

    assert messages(box, "RUN015") == [
        "the versions of rank 0: {'numpy': '2.4'}; in result_0.txt {'numpy': '2.3', 'python': '3.11'}"
    ]


def test_a_device_that_differs_is_told_as_it_is(tmp_path: Path) -> None:
    """A name is no mapping; where there is none, None is said."""
    box = Box(tmp_path)
    find(box.runs[2], "tta_world").value[0]["device_name"] = "a faster one"

    assert messages(box, "RUN015") == ["the device_name of rank 0: a faster one; in result_0.txt None"]


def test_how_far_the_runs_are_apart_is_told(tmp_path: Path) -> None:
    """Of those that are averaged: 7.73, 7.76 and 5 x 7.79 s."""
    box = Box(tmp_path)
    stretched(box, 1, 1, 1, 5, 6)

    assert messages(box, "RUN016") == [
        "the runs that are averaged take 7.730 to 38.950 s, 5.0 times as long; up to 4 times is usual"
    ]


def test_how_many_qualities_are_repeated_is_told(tmp_path: Path) -> None:
    """Of the run that it is like, not of the first that shares any."""
    part, near, whole = Box(tmp_path / "part"), Box(tmp_path / "near"), Box(tmp_path / "whole")
    curves(part, (0.1, 0.2, 0.6, 0.7, 0.8), CURVE, (0.1, 0.2, 0.3, 0.4, 0.51))
    curves(near, CURVE, (0.1, 0.2, 0.3 + 1e-7, 0.4, 0.51))
    copied(whole)
    for step in whole.runs[3]:
        step.at_s *= 1.01

    assert messages(part, "RUN012") == ["4 of 6 qualities are those of result_1.txt, and the seed is another"]
    assert messages(near, "RUN012") == [
        "4 of 6 qualities are those of result_0.txt, but for 1e-06 of the usual step between two of them, "
        "and the seed is another"
    ]
    assert messages(whole, "RUN012") == ["all 3 qualities are those of result_1.txt, and the seed is another"]


def test_the_least_that_a_count_may_be_is_told(tmp_path: Path) -> None:
    """A system has a node, and may have no accelerator."""
    box = Box(tmp_path)
    box.describe(number_of_nodes="two", accelerators_per_node="-1", accelerator_model_name="X")

    assert messages(box, "SYS009") == [
        "number_of_nodes is 'two'; it must be a whole number, at least 1",
        "accelerators_per_node is '-1'; it must be a whole number, at least 0",
    ]


def test_the_book_that_was_in_force_is_told(tmp_path: Path) -> None:
    """The newest of those before the day of the runs, 21 November, whichever is named."""
    middle = PriceBook(ROWS[:1], "3" * 64, "2025-06-01")
    law: dict[str, Any] = {"prices": PriceBooks((FIRST, middle, SECOND))}
    early, late = Box(tmp_path / "early", law=law), Box(tmp_path / "late", law=law)
    priced(early, "box", book=FIRST.digest)
    late.wall_starts_ms = [start_ms - 40 * DAY_MS for start_ms in late.wall_starts_ms]
    priced(late, "box", book=SECOND.digest)

    assert messages(early, "CST005") == [
        "the logs name the price book of 2025-01-01; on 2025-11-21 that of 2025-11-01 was in force"
    ]
    assert messages(late, "CST005") == [
        "the logs name the price book of 2025-11-01; on 2025-10-12 that of 2025-06-01 was in force"
    ]
