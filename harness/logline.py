"""One line of a log into an event: one JSON object, its types checked, nothing in it that JSON leaves open."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from harness.errors import printable
from harness.events import EVENT_TYPES, TOKEN, Event

_TOKEN = TOKEN.encode()
_MAX_DEPTH = 50  # json.dumps gives up at about 1,000; a line of ours has some four levels
_MAX_DIGITS = 20  # 64 bits; an integer without bound has no float


def parse_line(line: bytes, lineno: int) -> Event:
    """The event in one line that begins with the token.

    Raises:
        ValueError: it is not one JSON object with the five fields of an event, each of its type; a key
            stands in it twice; a number is not finite or beyond 64 bits; it is nested too deeply.
    """
    try:
        record = json.loads(
            line[len(_TOKEN) :].decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_whole,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    if line.count(b"[") + line.count(b"{") > _MAX_DEPTH:
        _refuse_depth(record)
    time_ms, event_type = record.get("time_ms"), record.get("event_type")
    key, metadata = record.get("key"), record.get("metadata")
    if not isinstance(time_ms, int | float) or isinstance(time_ms, bool):
        raise ValueError("time_ms is missing or not a number")
    if event_type not in EVENT_TYPES:
        raise ValueError(f"event_type is {printable(event_type)!r}; it must be one of {', '.join(EVENT_TYPES)}")
    if not isinstance(key, str) or not key:
        raise ValueError("key is missing or not a text")
    if not isinstance(metadata, dict):
        raise ValueError("metadata is missing or not an object")
    if "value" not in record:
        raise ValueError("value is missing")
    return Event(time_ms, event_type, key, record["value"], metadata, lineno)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name, value in pairs:
        if name in record:
            raise ValueError(f"the key {printable(name)!r} stands twice")
        record[name] = value
    return record


def _refuse_constant(name: str) -> NoReturn:
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


def _refuse_depth(record: object) -> None:
    level: list[Any] = [record]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise ValueError("nested too deeply")
