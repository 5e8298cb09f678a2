"""TODO-DOC."""

from __future__ import annotations

import math
from typing import Any


def number(value: object) -> float | None:
    """`value` if it is a finite number and no truth value, else None."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        as_float = float(value)
    except OverflowError:
        return None
    return as_float if math.isfinite(as_float) else None


MAX_TEXT = 500  # characters of an id or a source
MAX_NUMBER = 1e15


def number_of(value: object) -> float | None:
    """A finite number of no more than 1e15 either way; None if it is none. A truth value is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= MAX_NUMBER else None  # not a number is not less either


def text_of(value: object) -> str | None:
    """A text that can be printed on a line, of 1 to 500 characters; None if it is none."""
    return value if isinstance(value, str) and 0 < len(value) <= MAX_TEXT and value.isprintable() else None


def whole(value: object) -> int | None:
    """A count or a time as every store can hold it."""
    found = number(value)
    return None if found is None or not 0 <= found < 2**53 else int(found)


def mapping(value: object) -> dict[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}
