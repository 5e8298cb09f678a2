"""The receipt for a submission: verified with the service's key, and kept next to the result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.base import ssh_signature
from harness.base.http import HttpClient
from harness.errors import InputError, OutputError, printable
from harness.transparency.receipt import NAMESPACE, parse_receipt

NAME = "receipt.json"


def verified(client: HttpClient, record: Mapping[str, Any]) -> str:
    """Return a sentence about a receipt whose signature is that of the service's key, and whose event is its own.

    Raises:
        InputError: it is no receipt, or not validly signed.
    """
    place = f"{client.root}: the receipt"
    receipt = parse_receipt(dict(record), place)
    try:
        found = ssh_signature.parse_signature(receipt.signature.encode())
    except ValueError as error:
        raise InputError(f"{place} has no readable signature: {error}") from None
    if found.public_key != client.get("api/v1/key").get("public_key"):
        raise InputError(f"{place} is signed with {found.key}, which is not the key of the service")
    refusal = ssh_signature.refusal(receipt.text.encode(), receipt.signature.encode(), NAMESPACE)
    if refusal is not None and not refusal.is_inconclusive:
        raise InputError(f"{place} is not validly signed: {refusal.why}")
    doubt = "" if refusal is None else f" (not verified here: {refusal.why})"
    return (
        f"received as {receipt.submission}, event {receipt.opening.seq:,} of {printable(receipt.origin)}, signed with "
        f"{found.key}{doubt}"
    )


def keep(receipt: Mapping[str, Any], service: str, folder: Path) -> Path:
    """Write a receipt and the address of its service next to a result, in place of an earlier one; return the file.

    Raises:
        OutputError: it cannot be written.
    """
    path = folder / NAME
    try:
        path.write_text(json.dumps({**receipt, "service": service}, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from None
    return path
