"""Values of unknown type, as JSON and YAML give them: whether they are numbers, and those that are usable.

`True` and `False` are ints to Python; to every function here they are not numbers.
"""

from __future__ import annotations

import math
import re
from typing import Any, TypeGuard

MAX_NUMBER = 1e15  # more than any meter reports
MAX_TEXT = 500  # characters of an id or a source
_DIGITS = re.compile("[0-9]{1,9}")


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether `value` is an int or a float; NaN and the infinities are floats."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether `value` is an int; 1.0 is not."""
    return isinstance(value, int) and not isinstance(value, bool)


def finite_number(value: object) -> float | None:
    """Return a number as a float; None if it is not a number, not finite, or an int beyond the largest float."""
    if not is_number(value):
        return None
    try:
        as_float = float(value)
    except OverflowError:
        return None
    return as_float if math.isfinite(as_float) else None


def bounded_number(value: object) -> float | None:
    """Return a number from -1e15 to 1e15 as a float; None for anything else."""
    return float(value) if is_number(value) and abs(value) <= MAX_NUMBER else None  # NaN is not <= anything


def storable_int(value: object) -> int | None:
    """Return a number from 0 to below 2**53, its fraction cut off: an int that every store holds exactly; else None."""
    found = finite_number(value)
    return None if found is None or not 0 <= found < 2**53 else int(found)


def int_of_digits(value: object) -> int | None:
    """Return the int that a text of one to nine ASCII digits is; None for anything else, an int included."""
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else None


def positive_int(value: object) -> int | None:
    """Return an int above zero, given as one or, as MLPerf does, as a text of at most nine digits; else None."""
    found = int_of_digits(value) if isinstance(value, str) else value
    return found if is_whole(found) and found > 0 else None


def short_text(value: object) -> str | None:
    """Return a text of 1 to 500 printable characters, fit for one line; None for anything else."""
    return value if isinstance(value, str) and 0 < len(value) <= MAX_TEXT and value.isprintable() else None


def mapping_or_empty(value: object) -> dict[str, Any]:
    """Return a dict itself, and an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}
