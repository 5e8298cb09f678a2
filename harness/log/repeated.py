"""Which result the runs of a reproduction say that they repeat: `tta_reproduces`. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.errors import printable
from harness.log import keys
from harness.log.run_log import RunLog

_DIGEST = re.compile(r"[0-9a-f]{64}")


def repeated_by(log: RunLog) -> str | None:
    """Return the digest of the logs of the result that a run repeats; None where it repeats nothing.

    Raises:
        ValueError: what it states is not such a digest, or there are several; the message says so.
    """
    events = log.all(keys.TTA_REPRODUCES)
    digests = [event.value.get("digest") if isinstance(event.value, dict) else event.value for event in events]
    for digest in digests:
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise ValueError(f"repeats {printable(digest, 60)!r}, which is not the digest of a result")
    if len(set(digests)) > 1:
        raise ValueError(f"repeats {len(set(digests)):,} different results")
    return digests[0] if digests else None


def repeated(logs: Sequence[RunLog]) -> str | None:
    """Return the digest that all runs of a result state; None where none states any.

    Raises:
        ValueError: one of them states what is none, or another than the first; the message names its log.
    """
    first: str | None = None
    for number, log in enumerate(logs):
        try:
            digest = repeated_by(log)
        except ValueError as error:
            raise ValueError(f"{log.path.name} {error}") from None
        if number == 0:
            first = digest
        elif digest != first:
            own, before = (f"{item[:12]}…" if item is not None else "nothing" for item in (digest, first))
            name = logs[0].path.name
            raise ValueError(f"{log.path.name} repeats {own}, and {name} {before}: these runs do not belong together")
    return first


def is_reproduction(logs: Sequence[RunLog]) -> bool:
    """Whether all runs say alike which result they repeat."""
    try:
        return repeated(logs) is not None
    except ValueError:
        return False


def scored(logs: Sequence[RunLog], required: int) -> Sequence[RunLog]:
    """Return the runs by which a result is scored: of a reproduction the first as many as are required, else all.

    logs: by number. A reproduction goes on until its verdict is clear; its first runs are not chosen.
    """
    return logs[:required] if len(logs) > required and is_reproduction(logs) else logs
