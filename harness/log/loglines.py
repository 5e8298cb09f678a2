"""Many lines of a log into events at once, where it is certain that `parse_line` would make the same of each. Pure.

msgspec reads bytes into typed objects some ten times as fast as the standard library. It refuses what is not JSON,
not UTF-8 or no finite number; the types below refuse integers beyond 64 bits, depth, fields that are absent and fields
that no line has. A key that stands twice it does not see. So keys are counted: a pair has a colon, so there are not
more pairs than colons, nor, where no white space stands before a colon, than `":`; of a key that stands twice one is
read. As many keys read as there are of those means that none stands twice. Else, as with `":` in a text, nothing is
certain.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from itertools import chain, repeat
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from harness.log.events import Event

_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Plain: TypeAlias = _Whole | float | str | bool | None
_Flat: TypeAlias = _Plain | list[_Plain] | dict[str, _Plain]
_Deep: TypeAlias = _Plain | list[_Flat] | dict[str, _Flat]
_Deeper: TypeAlias = _Plain | list[_Deep] | dict[str, _Deep]


class _Line(Event, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True, rename={"lineno": "(lineno)"}):
    """An event as MLPerf's logger writes it: with all six fields."""

    time_ms: _Whole | float
    key: Annotated[str, msgspec.Meta(min_length=1)]
    value: _Deeper
    metadata: dict[str, _Deep]
    namespace: _Plain
    lineno: int = 0


class _Typed(_Line, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    event_type: Literal["INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"]


class _Untyped(_Line, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """Maybe without its type, as lines of Google's in rounds 0.7 and 1.0."""

    event_type: Literal["INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME", ""] = ""


class _Timed(msgspec.Struct):
    """Of any object, whether it has a time."""

    time_ms: Any = msgspec.UNSET


_NUM_FIELDS = 6
_TWO_VALUES = re.compile(rb"\}[ \t\r]*\{")
_OURS = "elapsed_ns"  # a line of ours has it, and a type
_SPACES = (b"\t", b"\r", b" ")  # JSON's, but for the line end
_TYPED, _UNTYPED = msgspec.json.Decoder(_Typed), msgspec.json.Decoder(_Untyped)
_TIMED = msgspec.json.Decoder(_Timed)
_metadata, _value = attrgetter("metadata"), attrgetter("value")


def events_of(texts: Sequence[bytes], linenos: Sequence[int]) -> Sequence[Event] | None:
    """The events in `texts`, what follows the token on each of the lines `linenos`; None where that is not certain."""
    joined = b"\n".join(texts)
    num_absent = 0
    if (events := _decoded(_TYPED, joined)) is None:
        if (events := _decoded(_UNTYPED, joined)) is None:
            return None
        untyped = [event for event in events if not event.event_type]
        if any(_OURS in event.metadata for event in untyped):
            return None
        num_absent = len(untyped)  # a type that is there, and empty, makes more keys than are found
    if len(events) != len(texts) or _TWO_VALUES.search(joined):
        return None  # as many values as lines: each line is one, or some line has two
    objects = [*map(_metadata, events), *[value for value in map(_value, events) if type(value) is dict]]
    num_keys = _NUM_FIELDS * len(events) - num_absent + sum(map(len, objects))
    if num_keys != joined.count(b":"):
        num_keys += _num_deeper(events)
        if num_keys != joined.count(b'":') or any(space + b":" in joined for space in _SPACES if space in joined):
            return None
    deque(map(force_setattr, events, repeat("lineno"), linenos), 0)
    return events


def has_no_time(text: bytes) -> bool:
    """Whether `text` is certainly an object without `time_ms`, of which `parse_line` makes no event.

    Nor of what follows a second token, which is in a text of it: what is a text there would stand between texts here.
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
