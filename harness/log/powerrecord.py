"""One line of a power log, after its token, into a record: tolerant where MLPerf's own logs are odd, and says so."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from harness.errors import printable

_TYPES = {
    "power_measurement_start": "INTERVAL_START",
    "power_measurement_stop": "INTERVAL_END",
}
_POINT = "POINT_IN_TIME"
_EMPTY = ("metadata_empty", "metadata is empty; it must be an object")


class Refused(ValueError):  # noqa: N818  (says what was done, as Interrupted does)
    """The line is no record; `kind` is the defect's."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Record:
    """oddities: (kind, message) of what is not as it should be and yet can be understood."""

    key: str
    time_ms: Any
    value: Any
    metadata: dict[str, Any]
    oddities: tuple[tuple[str, str], ...]


def record_of(text: bytes) -> Record:
    """The record in what follows the token.

    NaN and infinities become floats that are not finite: it is for the reader of the value to refuse them.

    Raises:
        Refused: it is not UTF-8, not one JSON object with a key, or a name stands in it twice.
    """
    try:
        fields = _DECODER.decode(text.decode("utf-8"))
    except UnicodeDecodeError:
        raise Refused("not_utf8", "the line is not UTF-8") from None
    except RecursionError:
        raise Refused("malformed", "nested too deeply") from None
    except json.JSONDecodeError as error:
        raise Refused("malformed", f"not JSON: {error.msg} at column {error.colno}") from None
    except Refused:
        raise
    except ValueError:  # an integer of more digits than Python converts
        raise Refused("malformed", "a number has too many digits") from None
    if not isinstance(fields, dict):
        raise Refused("malformed", "not a JSON object")
    key = fields.get("key")
    if not isinstance(key, str) or not key:
        raise Refused("malformed", "key is missing or not a text")
    oddities = []
    expected = _TYPES.get(key, _POINT)
    if fields.get("event_type") != expected:
        shown = printable(fields.get("event_type"), 40)
        oddities.append(("event_type_wrong", f"event_type is {shown!r}; of {printable(key, 40)} it is {expected}"))
    metadata = fields.get("metadata")
    if not isinstance(metadata, dict):
        if metadata is None or metadata == "":
            oddities.append(_EMPTY)
        else:
            shown = printable(metadata, 40)
            oddities.append(("metadata_malformed", f"metadata is {shown!r}; it must be an object"))
        metadata = {}
    value = fields.get("value")
    if value == "null":
        oddities.append(("null_as_text", 'value is the text "null"; a missing value is null'))
        value = None
    return Record(key, fields.get("time_ms"), value, metadata, tuple(oddities))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise Refused("key_doubled", "a name stands twice in one JSON object")
    return record


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)
