"""What a leaf of the log is: a commitment to an event, which says nothing of the event until it is opened.

A leaf's bytes are the SHA-256 of 16 random bytes, the salt, and the event's canonical JSON. Who has salt and event, the
opening, can show that the event is in the log; who has the log alone learns only how many events there are. That is why
an embargoed result can be in a public log.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.base import strict_json
from harness.base.values import is_whole
from harness.errors import InputError
from harness.transparency.tree import leaf_hash

SALT_BYTES = 16
_SALT = re.compile(f"[0-9a-f]{{{2 * SALT_BYTES}}}")
_FIELDS = {"seq", "at_ms", "actor", "kind", "subject", "body", "prev"}


@dataclass(frozen=True, slots=True)
class Opening:
    """An event and what is needed to show that it is in the log.

    seq: the number of its leaf, from 0. text: its canonical JSON, with `seq`, `at_ms` (UTC), `actor` (who did it, or
    null), `kind`, `subject` (the id of what it is about), `body` and `prev` (the hash of the leaf before, hexadecimal).
    """

    seq: int
    salt: str  # hexadecimal
    text: str

    @property
    def leaf(self) -> bytes:
        """The hash of its leaf."""
        return leaf_hash(hashlib.sha256(bytes.fromhex(self.salt) + self.text.encode()).digest())

    @property
    def event(self) -> dict[str, Any]:
        return dict(json.loads(self.text))

    def record(self) -> dict[str, Any]:
        """A line of an export."""
        return {"seq": self.seq, "salt": self.salt, "event": self.text}


def event_text(
    seq: int, at_ms: int, actor: str | None, kind: str, subject: str, body: Mapping[str, Any], prev: str
) -> str:
    """Return the canonical JSON of an event."""
    record = {"seq": seq, "at_ms": at_ms, "actor": actor, "kind": kind, "subject": subject, "body": body, "prev": prev}
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parse_opening(record: object, place: str) -> Opening:
    """Return the opening in a line of an export, as `Opening.record` writes it.

    Raises:
        InputError: it is none.
    """
    match record:
        case {"seq": seq, "salt": str(salt), "event": str(text)} if is_whole(seq) and _SALT.fullmatch(salt):
            pass
        case _:
            raise InputError(f"{place}: not an event of a log: `seq`, `salt` and `event` are missing or wrong")
    try:
        event = strict_json.loads(text.encode())
    except ValueError as error:
        raise InputError(f"{place}: the event is not JSON: {error}") from None
    is_event = isinstance(event, dict) and set(event) == _FIELDS
    if not is_event or event["seq"] != seq or not isinstance(event["body"], dict):
        raise InputError(f"{place}: the event has other fields than {', '.join(sorted(_FIELDS))}, or another number")
    return Opening(seq, salt, text)
