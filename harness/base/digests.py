"""SHA-256 of files by name, stored as JSON: a file whose size and timestamp are the stored ones is not read again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.base.files import sha256_of

NAME = "digests.json"
Entry = dict[str, Any]  # size, mtime_ns, sha256


def stored(path: Path) -> dict[str, Entry]:
    """Return the entries in a file; none if they cannot be read, which only costs time."""
    try:
        known = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(known, dict):
        return {}
    return {
        name: entry for name, entry in known.items() if isinstance(entry, dict) and isinstance(entry.get("sha256"), str)
    }


def store(path: Path, entries: Mapping[str, Entry]) -> None:
    """Write the entries to a file. Where that fails, the next reader has to read all files."""
    with suppress(OSError):
        path.write_text(json.dumps(entries, indent=1))


def entry(path: Path, known: Entry | None = None, sha256: str | None = None) -> Entry:
    """Return the entry of a file, which is read unless it has the stamp of the `known` one, or `sha256` is its digest.

    Raises:
        OSError: it cannot be read.
    """
    status = path.stat()
    stamp = {"size": status.st_size, "mtime_ns": status.st_mtime_ns}
    if known is not None and {name: known.get(name) for name in stamp} == stamp:
        sha256 = known["sha256"]
    return {**stamp, "sha256": sha256 or sha256_of(path)}
