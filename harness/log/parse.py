"""One line of a log into an event: one JSON object, its types checked, nothing in it that JSON leaves open."""

from __future__ import annotations

import json
import re
from json.scanner import make_scanner
from typing import Any

from harness.base import strict_json
from harness.errors import printable
from harness.log.events import EVENT_TYPES, TOKEN, Event

_TOKEN = TOKEN.encode()
_MAX_DEPTH = 50  # json.dumps gives up at about 1,000; a line of ours has some four levels
_MAX_DIGITS = 20  # 64 bits; an integer without bound has no float
_ABOVE = 10**_MAX_DIGITS
_APART = re.compile(rb'"[ \t\r\n]+:')
_scan = make_scanner(json.JSONDecoder(parse_constant=strict_json.refuse))  # type: ignore[arg-type, unused-ignore]


def parse_line(line: bytes, lineno: int) -> Event:
    """The event in one line that begins with the token.

    Of a line that is none, but has a second token, what follows the last one is read, as by MLPerf's own parser:
    two processes wrote at once. A line of ours is never taken from the middle of another.

    Raises:
        ValueError: it is not one JSON object with the five fields of an event, each of its type; a key
            stands in it twice; a number is not finite or beyond 64 bits; it is nested too deeply.
    """
    try:
        return _parse(line, lineno)
    except ValueError:
        if b"\r" in line:
            raise ValueError("a carriage return ends a line in it; a line ends with a line feed") from None
        last = line.rfind(_TOKEN)
        event = _parse(line[last:], lineno) if last > 0 else None
        if event is None or event.elapsed_ns is not None:
            raise
        return event


def is_foreign_event(line: bytes) -> bool:
    """Whether a last line without an end is an event all the same, and another program's; ours ends its lines."""
    try:
        return parse_line(line, 0).elapsed_ns is None
    except ValueError:
        return False


def _parse(line: bytes, lineno: int) -> Event:
    record = _plain(line)
    if record is None:
        record = _strict(line)
    time_ms, event_type = record.get("time_ms"), record.get("event_type")
    key, metadata = record.get("key"), record.get("metadata")
    if not isinstance(time_ms, int | float) or isinstance(time_ms, bool):
        raise ValueError("time_ms is missing or not a number")
    is_foreign = not isinstance(metadata, dict) or "elapsed_ns" not in metadata
    if event_type is None and is_foreign:
        event_type = ""  # logs of Google's in rounds 0.7 and 1.0; MLPerf's parser does not look at it
    elif event_type not in EVENT_TYPES:
        raise ValueError(f"event_type is {printable(repr(event_type))}; it must be one of {', '.join(EVENT_TYPES)}")
    if not isinstance(key, str) or not key:
        raise ValueError("key is missing or not a text")
    if not isinstance(metadata, dict):
        raise ValueError("metadata is missing or not an object")
    if "value" not in record:
        raise ValueError("value is missing")
    return Event(time_ms, event_type, key, record["value"], metadata, lineno)


def _strict(line: bytes) -> dict[str, Any]:
    record = strict_json.loads(line[len(_TOKEN) :])
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    return record


def _plain(line: bytes) -> dict[str, Any] | None:
    """What `_strict` makes of the line, at a third of its cost; None wherever that is not certain.

    Certain is a line with few brackets, numbers in bounds, and as many keys read as it has pairs: a pair has a colon,
    so there are not more pairs than colons, nor, where no white space stands between quote and colon, than `":`; and
    of a key that stands twice one is read.
    """
    if line.count(b"{") + line.count(b"[") > _MAX_DEPTH:
        return None
    try:
        record, end = _scan(text := line[len(_TOKEN) :].decode("utf-8"), 0)
    except (ValueError, RecursionError, StopIteration):
        return None
    if type(record) is not dict or end != len(text):
        return None
    num_keys = 0
    containers: list[Any] = [record]
    for container in containers:  # which grows meanwhile
        items = container
        if type(container) is dict:
            num_keys += len(container)
            items = container.values()
        for item in items:
            kind = type(item)
            if kind is float:
                if item - item != 0:
                    return None
            elif kind is int:
                if not -_ABOVE < item < _ABOVE:
                    return None
            elif kind is dict or kind is list:
                containers.append(item)
    if line.count(b":", len(_TOKEN)) == num_keys:
        return record
    return record if line.count(b'":', len(_TOKEN)) == num_keys and _APART.search(line) is None else None
