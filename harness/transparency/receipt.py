"""The receipt for a submission: that its list of files was received at a time, and which event of the log says so.

It is signed with the service's key, as `ssh-keygen -Y sign -n tta-receipt` would over `text`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from harness.base.values import is_whole
from harness.errors import InputError
from harness.transparency.event import Opening, parse_opening

NAMESPACE = "tta-receipt"
_ID, _DIGEST = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Receipt:
    """submission: an id. manifest_sha256: of its list of files. origin: the log's name. opening: of the event.

    signature: empty while it is being made.
    """

    submission: str
    manifest_sha256: str
    received_ms: int
    origin: str
    opening: Opening
    signature: str = ""

    @property
    def text(self) -> str:
        """What is signed: one line of canonical JSON."""
        record = {
            "leaf": self.opening.leaf.hex(), "log": self.origin, "log_index": self.opening.seq,
            "manifest_sha256": self.manifest_sha256, "received_ms": self.received_ms, "submission": self.submission,
        }  # fmt: skip
        return json.dumps(record, sort_keys=True, separators=(",", ":")) + "\n"

    def record(self) -> dict[str, Any]:
        """The receipt as it is handed out."""
        return {**json.loads(self.text), "opening": self.opening.record(), "signature": self.signature}


def parse_receipt(record: object, place: str) -> Receipt:
    """Return the receipt that `Receipt.record` wrote; its signature is not verified here.

    Raises:
        InputError: it is none, or contradicts the event in it.
    """
    match record:
        case {
            "submission": str(submission),
            "manifest_sha256": str(manifest),
            "received_ms": received_ms,
            "log": str(origin),
            "opening": opened,
            "signature": str(signature),
        } if _ID.fullmatch(submission) and _DIGEST.fullmatch(manifest) and is_whole(received_ms):
            opening = parse_opening(opened, place)
        case _:
            raise InputError(f"{place}: not a receipt: a field is missing or wrong")
    found = Receipt(submission, manifest, received_ms, origin, opening, signature)
    event = opening.event
    said = (event["subject"], event["body"].get("manifest_sha256"), event["at_ms"])
    if record != found.record() or said != (submission, manifest, received_ms):
        raise InputError(f"{place}: the receipt is about another event than it says")
    return found
