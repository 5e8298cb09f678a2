"""Lines of a log into events: one JSON object each, its types checked, nothing in it that JSON leaves open.

There are three ways, from slow and general to fast and narrow, and each gives up wherever it is not certain to agree
with the one before: `_strict` names what is wrong with a line; `_plain` reads a line with Python's own scanner;
`events_of` reads many lines at once with msgspec.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Sequence
from itertools import chain, repeat
from json.scanner import make_scanner
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from harness.base import strict_json
from harness.base.values import is_number
from harness.errors import printable
from harness.log.events import EVENT_TYPES, TOKEN, Event

_TOKEN = TOKEN.encode()
_MAX_DEPTH = 50  # json.dumps gives up at about 1,000; a line of `tta` has about four levels
_MAX_DIGITS = 20  # 64 bits; an unbounded integer may have no float
_ABOVE = 10**_MAX_DIGITS
_APART = re.compile(rb'"[ \t\r\n]+:')
_scan = make_scanner(json.JSONDecoder(parse_constant=strict_json.refuse))  # type: ignore[arg-type, unused-ignore]


def parse_line(line: bytes, lineno: int) -> Event:
    """Return the event in one line that begins with the token.

    If a line is not an event but has a second token, the text after the last token is read, as MLPerf's own parser
    does: two processes wrote at once. An event with monotonic time is never taken from the middle of a line.

    Raises:
        ValueError: the line is not one JSON object with the five fields of an event, each of its type; an object has a
            key twice; a number is not finite or beyond 64 bits; the nesting is too deep.
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
    """Whether a last line without an end is nevertheless an event of another program; `tta` ends its lines."""
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
    if not is_number(time_ms):
        raise ValueError("time_ms is missing or not a number")
    is_foreign = not isinstance(metadata, dict) or "elapsed_ns" not in metadata
    if event_type is None and is_foreign:
        event_type = ""  # Google's logs in rounds 0.7 and 1.0; MLPerf's parser ignores it
    elif event_type not in EVENT_TYPES:
        raise ValueError(f"event_type is {printable(repr(event_type))}; it must be one of {', '.join(EVENT_TYPES)}")
    if not isinstance(key, str) or not (key or is_foreign):
        raise ValueError("key is missing or not a text")  # MLPerf's parser skips a key that is empty
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
    """Return what `_strict` makes of the line, at a third of the cost; None if that is not certain.

    It is certain for a line with few brackets, numbers within bounds, and as many keys as pairs. Pairs are counted by
    their colons, or, if there is no white space between quote and colon, by `":`; a text may only add to that count.
    Python's scanner keeps one of two equal keys, so that a key that occurs twice makes fewer keys than pairs.
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
    for container in containers:  # grows as it is read
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


# Many lines at once. msgspec reads bytes into typed objects about ten times as fast as the standard library. It refuses
# what is not JSON or not UTF-8 and numbers that are not finite; the types below refuse integers beyond 64 bits, depth,
# and missing or additional fields. It does not notice a key that occurs twice; `events_of` counts keys for that.

_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Plain: TypeAlias = _Whole | float | str | bool | None
_Flat: TypeAlias = _Plain | list[_Plain] | dict[str, _Plain]
_Deep: TypeAlias = _Plain | list[_Flat] | dict[str, _Flat]
_Deeper: TypeAlias = _Plain | list[_Deep] | dict[str, _Deep]


class _Line(Event, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True, rename={"lineno": "(lineno)"}):
    """An event as MLPerf's logger writes it, with all six fields."""

    time_ms: _Whole | float
    key: Annotated[str, msgspec.Meta(min_length=1)]
    value: _Deeper
    metadata: dict[str, _Deep]
    namespace: _Plain
    lineno: int = 0


class _Typed(_Line, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    event_type: Literal["INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"]


class _Untyped(_Line, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """An event that may lack its type, as in Google's logs in rounds 0.7 and 1.0."""

    event_type: Literal["INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME", ""] = ""


class _Timed(msgspec.Struct):
    """Any object: only whether it has a time is read."""

    time_ms: Any = msgspec.UNSET


_NUM_FIELDS = 6
_TWO_VALUES = re.compile(rb"\}[ \t\r]*\{")
_MONOTONIC = "elapsed_ns"  # an event that has it must have a type
_SPACES = (b"\t", b"\r", b" ")  # JSON's white space, except the line end
_TYPED, _UNTYPED = msgspec.json.Decoder(_Typed), msgspec.json.Decoder(_Untyped)
_TIMED = msgspec.json.Decoder(_Timed)
_metadata, _value = attrgetter("metadata"), attrgetter("value")


def events_of(texts: Sequence[bytes], linenos: Sequence[int]) -> Sequence[Event] | None:
    """Return the events in `texts`, the text after the token of each of the lines `linenos`; None if not certain.

    As many keys as pairs, counted as in `_plain`, mean that no key occurs twice.
    """
    joined = b"\n".join(texts)
    num_absent = 0
    if (events := _decoded(_TYPED, joined)) is None:
        if (events := _decoded(_UNTYPED, joined)) is None:
            return None
        untyped = [event for event in events if not event.event_type]
        if any(_MONOTONIC in event.metadata for event in untyped):
            return None
        num_absent = len(untyped)  # a type that is present but empty makes one pair more, and nothing is certain
    if len(events) != len(texts) or _TWO_VALUES.search(joined):
        return None  # unless there are as many values as lines, and no line has two
    objects = [*map(_metadata, events), *[value for value in map(_value, events) if type(value) is dict]]
    num_keys = _NUM_FIELDS * len(events) - num_absent + sum(map(len, objects))
    if num_keys != joined.count(b":"):
        num_keys += _num_deeper(events)
        if num_keys != joined.count(b'":') or any(space + b":" in joined for space in _SPACES if space in joined):
            return None
    deque(map(force_setattr, events, repeat("lineno"), linenos), 0)
    return events


def has_no_time(text: bytes) -> bool:
    """Whether `text` is certainly an object without `time_ms`, which `parse_line` refuses.

    A second token makes no difference: in a valid object it is part of a text, and what follows it there is not an
    object.
    """
    try:
        return _TIMED.decode(text).time_ms is msgspec.UNSET
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _decoded(
    decoder: msgspec.json.Decoder[_Typed] | msgspec.json.Decoder[_Untyped], lines: bytes
) -> Sequence[Event] | None:
    try:
        return decoder.decode_lines(lines)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _num_deeper(events: Sequence[Event]) -> int:
    """The keys in objects within objects and lists."""
    num_keys = 0
    level: list[Any] = [*map(_metadata, events), *map(_value, events)]
    while level:
        inner = chain.from_iterable(
            item.values() if type(item) is dict else item for item in level if type(item) in (dict, list)
        )
        level = [item for item in inner if type(item) in (dict, list)]
        num_keys += sum(len(item) for item in level if type(item) is dict)
    return num_keys
