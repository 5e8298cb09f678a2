"""A table as plain text: aligned columns that survive a pipe, a narrow terminal and untrusted names."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import printable


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: frozenset[int] = frozenset()) -> str:
    """Return the table's lines under its header. left: the columns that are aligned left; the others are aligned right.

    Control characters are made visible, so that no cell can control the terminal or break its line.
    """
    cells = [[printable(cell, 60) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )
