"""An event of the log as it is handed out at once, before the tree has it: opened, and signed by the service.

It is signed as `ssh-keygen -Y sign -n tta-witness` would over `text`. Once a checkpoint covers the event, its place in
the tree shows more than the signature.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from harness.errors import InputError
from harness.transparency.event import Opening, parse_opening

NAMESPACE = "tta-witness"


@dataclass(frozen=True, slots=True)
class Witnessed:
    """origin: the log's name. signature: empty while it is being made."""

    origin: str
    opening: Opening
    signature: str = ""

    @property
    def text(self) -> str:
        """What is signed: one line of canonical JSON."""
        record = {"leaf": self.opening.leaf.hex(), "log": self.origin, "log_index": self.opening.seq}
        return json.dumps(record, sort_keys=True, separators=(",", ":")) + "\n"

    def record(self) -> dict[str, Any]:
        """What is handed out."""
        return {"log": self.origin, "opening": self.opening.record(), "signature": self.signature}


def parse_witnessed(record: object, place: str) -> Witnessed:
    """Return what `Witnessed.record` wrote; its signature is not verified here.

    Raises:
        InputError: it is none.
    """
    match record:
        case {"log": str(origin), "opening": opened, "signature": str(signature), **rest} if not rest:
            return Witnessed(origin, parse_opening(opened, place), signature)
    raise InputError(f"{place}: not a receipt of a witness: it must have log, opening and signature")
