"""Strict JSON for untrusted input: nothing in it that JSON leaves open and readers take differently."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from harness.errors import printable

_MAX_DEPTH = 50  # a system description has two levels; json.dumps, which compares values, gives up at about 1,000
_MAX_DIGITS = 20  # 64 bits


def loads(data: bytes) -> Any:
    """Return the value in `data`.

    Raises:
        ValueError: it is not JSON, not UTF-8, or nested more than 50 levels deep; an object has a key twice; a number
            is not finite or has more than 20 digits.
    """
    try:
        value = json.loads(
            data.decode("utf-8"),  # bytes might be taken for UTF-16
            object_pairs_hook=_unique,
            parse_constant=refuse,
            parse_float=_finite,
            parse_int=_whole,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [item for outer in level for item in _inner(outer) if isinstance(item, dict | list)]
    if level:
        raise ValueError("nested too deeply")
    return value


def _inner(value: object) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name, value in pairs:
        if name in record:
            raise ValueError(f"the key {printable(name)!r} occurs twice")
        record[name] = value
    return record


def refuse(name: str) -> NoReturn:
    """Refuse NaN and the infinities, which Python's JSON reader accepts.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{printable(text, 40)} is not a finite number")
    return number


def _whole(text: str) -> int:
    if len(text.lstrip("-")) > _MAX_DIGITS:
        raise ValueError(f"{printable(text, 40)} has more than {_MAX_DIGITS} digits")
    return int(text)
