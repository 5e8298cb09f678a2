"""Receipts: what is handed out is read again, and what contradicts its event is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.errors import InputError
from harness.transparency.event import Opening, event_text
from harness.transparency.receipt import Receipt, parse_receipt

ID, DIGEST = "a" * 32, "d" * 64
EVENT = event_text(7, 1000, "p", "submission.finalise", ID, {"manifest_sha256": DIGEST}, "0" * 64)
RECEIPT = Receipt(ID, DIGEST, 1000, "board/log", Opening(7, "5" * 32, EVENT), "signature")


def test_a_receipt_is_read_as_it_was_written() -> None:
    """Also after a way through JSON; what is signed is one line."""
    assert parse_receipt(json.loads(json.dumps(RECEIPT.record())), "here") == RECEIPT
    assert RECEIPT.text.count("\n") == 1


@pytest.mark.parametrize(
    "change",
    [
        {"submission": "b" * 32},
        {"submission": "nonsense"},
        {"manifest_sha256": "e" * 64},
        {"received_ms": 1001},
        {"received_ms": "1000"},
        {"leaf": "0" * 64},
        {"log_index": 8},
        {"signature": None},
        {"opening": {}},
        {"more": 1},
    ],
)
def test_what_is_no_receipt_or_of_another_event_is_refused(change: dict[str, Any]) -> None:
    """In one sentence that names the place."""
    with pytest.raises(InputError, match=r"^here: "):
        parse_receipt({**RECEIPT.record(), **change}, "here")
