"""The curve of the live panel: where the dots are, the target, and the labels; at every size."""

from __future__ import annotations

import pytest

from harness.run.curve import EXPECTED, TARGET, draw, is_drawable


def dots(line: str) -> list[int]:
    """The columns that have dots."""
    return [place for place, character in enumerate(line) if "\u2801" <= character <= "\u28ff"]


def test_curve_rises_to_the_target() -> None:
    """From the lower left to the upper right; the target is the uppermost line, its samples are marked."""
    *rows, below = draw([(100, 0.0), (900, 0.8)], 1.0, 1000, columns=46, rows=5)

    assert {len(line) for line in (*rows, below)} == {46}
    assert rows[0].startswith("1 │" + TARGET)
    assert rows[-1].startswith("0 │")
    assert not dots(rows[0])
    assert min(dots(rows[-1])) < min(dots(rows[1]))
    assert all(line[-1] == EXPECTED for line in rows)
    assert below.split() == ["0", "1,000", "samples"]


def test_target_between_the_qualities_is_where_it_belongs() -> None:
    """For a metric that shrinks: the curve crosses the line of the target."""
    *rows, _ = draw([(1, 9.0), (2, 1.0)], 5.0, None, columns=30, rows=9)

    assert [number for number, row in enumerate(rows) if TARGET in row] == [4]
    assert rows[4].lstrip().startswith("5 │")
    assert not any(EXPECTED in row for row in rows)


@pytest.mark.parametrize("columns", [1, 12, 80, 300])
@pytest.mark.parametrize("points", [[], [(0, 0.5)], [(10, 0.5), (20, 0.5)], [(1, -1e300), (10**12, 1e300)]])
def test_no_size_and_no_value_breaks_it(columns: int, points: list[tuple[int, float]]) -> None:
    """Nothing yet, one point, a level curve, and values at the ends of floats: all lines are equally long."""
    lines = draw(points, 0.5, None, columns, rows=4)

    assert len(lines) == 5
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize(("encoding", "expected"), [("utf-8", True), ("latin-1", False), ("no such", False)])
def test_a_terminal_that_cannot_show_braille(encoding: str, expected: bool) -> None:
    """An old console gets the panel without the curve."""
    assert is_drawable(encoding) is expected
