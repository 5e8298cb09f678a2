"""Events and their line format: MLPerf's MLLOG, with order, monotonic time and a hash chain in the metadata.

    :::MLLOG {"namespace": "", "time_ms": 1763683200123, "event_type": "INTERVAL_START", "key": "run_start",
              "value": null, "metadata": {"file": "...", "lineno": 42, "seq": 17, "elapsed_ns": 8123456789,
              "prev": "<sha256 of the previous line>"}}

`seq` counts from 0; `elapsed_ns` is monotonic since the referee's clock was made; `prev` is the SHA-256 of the bytes
of `tta`'s previous line, from its `:::MLLOG` to its last brace (64 zeros on the first line). The chain shows damage
and casual edits. It is not a signature: anyone who rewrites a whole log can make a new chain.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from harness.base.values import is_whole

TOKEN = ":::MLLOG "  # noqa: S105  (not a secret: how an event's line begins)
CHAIN_START = "0" * 64
NAMESPACE = ""

EventType = Literal["INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"]
EVENT_TYPES: tuple[str, ...] = ("INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME")


class Event(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One line of a log. lineno: its line in the file, counted from 1; 0 for an event that is not in a file."""

    time_ms: int | float
    event_type: str
    key: str
    value: Any
    metadata: Mapping[str, Any]
    lineno: int = 0

    def __eq__(self, other: object) -> bool:
        """Compare the fields above only: the subclasses of `harness.log.parse` have more."""
        if not isinstance(other, Event):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in Event.__struct_fields__)

    def __ne__(self, other: object) -> bool:
        return not self == other  # msgspec's own compares the classes

    @property
    def elapsed_ns(self) -> int | None:
        """Monotonic nanoseconds; None in another program's log."""
        elapsed = self.metadata.get("elapsed_ns")
        return elapsed if is_whole(elapsed) else None

    @property
    def samples_count(self) -> int | None:
        """Samples trained on by the time of the event; None if it does not say."""
        count = self.metadata.get("samples_count")
        return count if is_whole(count) else None


def canonical_json(value: object) -> str:
    """Return `value` as JSON with sorted keys and no white space, so that equal values have equal texts.

    Raises:
        ValueError: it contains NaN or an infinity.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(value: object) -> str:
    """Return the SHA-256 of the canonical JSON of `value`, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def format_line(event: Event) -> str:
    """Return the event as a line, without its line end.

    Raises:
        ValueError: it contains NaN or an infinity, which JSON does not have.
    """
    record = {
        "namespace": NAMESPACE,
        "time_ms": event.time_ms,
        "event_type": event.event_type,
        "key": event.key,
        "value": event.value,
        "metadata": dict(event.metadata),
    }
    return TOKEN + json.dumps(record, allow_nan=False)


def line_digest(line: str) -> str:
    """Return the `prev` of the line that follows `line`."""
    return hashlib.sha256(line.encode()).hexdigest()
