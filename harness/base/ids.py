"""Identifiers that sort by time and cannot be guessed, and secrets that are kept as digests."""

from __future__ import annotations

import hashlib
import re
import secrets

TOKEN_PREFIX = "tta_"  # noqa: S105  (so that a scanner for leaked secrets can know them)
ID_PATTERN = re.compile("[0-9a-f]{32}")
_RANDOM_BITS = 74
_VERSION, _VARIANT = 7, 0b10


def new_id(now_ms: int) -> str:
    """Return a UUID of version 7 as 32 hexadecimal digits: 48 bits of time, 74 random ones.

    Source: RFC 9562, 5.7.
    """
    random = secrets.randbits(_RANDOM_BITS)
    high, low = random >> 62, random & (1 << 62) - 1
    return f"{now_ms << 80 | _VERSION << 76 | high << 64 | _VARIANT << 62 | low:032x}"


def new_secret() -> str:
    """Return a token with 256 random bits."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def secret_digest(secret: str) -> str:
    """Return what is kept of a secret. A fast hash suffices: there is nothing to guess in 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()
