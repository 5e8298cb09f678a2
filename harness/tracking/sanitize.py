"""Turns values of a log into names and text that every MLflow store accepts.

The log reader bounds their depth and digits; they may still have lone surrogates, control characters and slashes.
"""

from __future__ import annotations

import re

from harness.log.events import digest_of

MAX_WORD_CHARS = 100  # MLflow's limit is 250, and an experiment's name has two words


def clean(value: object) -> str:
    """Return `value` as text without control characters and lone surrogates."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in str(value))


def word(text: str) -> str:
    """Return `text` as one word of characters that MLflow and file systems accept."""
    found = re.sub(r"[^A-Za-z0-9_.-]+", "_", text)[:MAX_WORD_CHARS]
    return found if found.strip(".") else "_"


def param_name(name: str) -> str:
    """Return `name` as the name of a parameter; one that had to change gets a digest, so that names stay distinct."""
    safe = word(name)
    return safe if safe == name else f"{safe[: MAX_WORD_CHARS - 9]}-{digest_of(name)[:8]}"


def flat(value: object, prefix: str = "") -> dict[str, object]:
    """Flatten a nested mapping to dotted names."""
    if not isinstance(value, dict):
        return {prefix: value} if prefix else {}
    return {
        name: item
        for key, nested in value.items()
        for name, item in flat(nested, f"{prefix}.{key}" if prefix else key).items()
    }
