"""Values of a log as every MLflow store can hold them: finite numbers, whole numbers, plain words, clean text.

What comes from a log is bounded by its reader in depth and digits; it may still have halves of characters, control
characters and names with slashes.
"""

from __future__ import annotations

import re
from typing import Any

from harness.log.events import digest_of
from harness.scoring.timeline import number

MAX_WORD_CHARS = 100  # MLflow's limit is 250, and an experiment's name has two words


def whole(value: object) -> int | None:
    """A count or a time as every store can hold it."""
    found = number(value)
    return None if found is None or not 0 <= found < 2**53 else int(found)


def mapping(value: object) -> dict[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def clean(value: object) -> str:
    """As text that every store can hold: no control characters, no halves of characters."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in str(value))


def word(text: str) -> str:
    """As one word of the characters that MLflow and file systems both take."""
    found = re.sub(r"[^A-Za-z0-9_.-]+", "_", text)[:MAX_WORD_CHARS]
    return found if found.strip(".") else "_"


def param_name(name: str) -> str:
    """As a parameter's name; what had to be changed gets a digest, so that two names never become one."""
    safe = word(name)
    return safe if safe == name else f"{safe[: MAX_WORD_CHARS - 9]}-{digest_of(name)[:8]}"


def flat(value: object, prefix: str = "") -> dict[str, object]:
    """A nested mapping as one of dotted names."""
    if not isinstance(value, dict):
        return {prefix: value} if prefix else {}
    return {
        name: item
        for key, nested in value.items()
        for name, item in flat(nested, f"{prefix}.{key}" if prefix else key).items()
    }
