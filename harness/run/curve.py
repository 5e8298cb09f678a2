"""A curve of qualities as text, for the live panel: braille dots, eight to a cell, with the target as a line."""

from __future__ import annotations

from collections.abc import Sequence

TARGET, EXPECTED = "┈", "┊"
_EMPTY = 0x2800
# Unicode, block Braille Patterns: the bit of a dot, by row and column within its cell.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def draw(
    points: Sequence[tuple[int, float]], target: float, expected: int | None, columns: int, rows: int
) -> list[str]:
    """Return `rows` lines of `columns` characters and a line below them with the samples.

    points: samples and quality, in order; the lines between them are drawn. expected: samples at which the target will
    be reached, marked by a vertical line; None if unknown. The labels at the left are the largest and the smallest
    quality that is shown, and the target.
    """
    values = [*(value for _, value in points), target]
    low, high = min(values), max(values)
    if low == high:
        low, high = low - 0.5, high + 0.5
    end = max([1, *(samples for samples, _ in points), *([] if expected is None else [expected])])
    labels = {0: f"{high:.4g}", rows - 1: f"{low:.4g}"}

    def row_of(value: float) -> int:
        return round((high - value) / (high - low) * (4 * rows - 1))

    target_row = row_of(target) // 4
    labels[target_row] = f"{target:.4g}"
    margin = max(map(len, labels.values())) + 2
    width = max(2, columns - margin)

    def column_of(samples: float) -> int:
        return round(samples / end * (2 * width - 1))

    cells = [[0] * width for _ in range(rows)]

    def dot(column: int, row: int) -> None:
        cells[row // 4][column // 2] |= _DOTS[row % 4][column % 2]

    places = [(column_of(samples), row_of(value)) for samples, value in points]
    for (x0, y0), (x1, y1) in zip(places[:1] + places, places, strict=False):
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(steps + 1):
            dot(round(x0 + (x1 - x0) * step / steps), round(y0 + (y1 - y0) * step / steps))
    mark = None if expected is None else column_of(expected) // 2
    lines = []
    for number, row in enumerate(cells):
        blank = TARGET if number == target_row else " "
        text = [chr(_EMPTY + dots) if dots else EXPECTED if place == mark else blank for place, dots in enumerate(row)]
        lines.append(f"{labels.get(number, ''):>{margin - 2}} │{''.join(text)}")
    shown = f"{end:,} samples"
    return [*lines, f"{'0':>{margin}}{shown:>{width}}"[: margin + width]]


def is_drawable(encoding: str) -> bool:
    """Whether a terminal of this encoding can show the characters of a curve."""
    try:
        f"{TARGET}{EXPECTED}{chr(_EMPTY)}│".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
