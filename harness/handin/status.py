"""What became of a submission, in text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from harness.base.values import is_whole, mapping_or_empty
from harness.errors import printable

# States in which nothing more happens by itself.
SETTLED = ("invalid", "check_failed", "rejected", "withdrawn", "published", "moved_to_open", "retracted")
FAILED = ("invalid", "check_failed", "rejected", "retracted")


def status_text(found: Mapping[str, Any]) -> str:
    """Return state, findings and history of a submission, as the service says them."""
    return "\n".join(_lines(found))


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    what = [found.get(name) for name in ("organisation", "system", "benchmark", "division")]
    yield f"{printable(found.get('id'))}: {printable(found.get('words'))}"
    yield ", ".join(printable(item) for item in what if item)
    for name, before in (("supersedes", "it improves"), ("superseded_by", "it was improved by")):
        if found.get(name):
            yield f"{before} {printable(found[name])}"
    findings = _mappings(found.get("findings"))
    for item in findings:
        place = f"{item.get('path')}:{item['line']}" if item.get("line") else item.get("path")
        waived = " (waived)" if item.get("waived") else ""
        severity = f"{item.get('code') or item.get('name')} {item.get('severity')}{waived}"
        yield f"  {printable(severity)}: {printable(place)}: {printable(item.get('message'), 500)}"
    for item in _mappings(found.get("history")):
        at_ms = item.get("at_ms")
        when = _time(at_ms)
        reason = mapping_or_empty(item.get("body")).get("reason")
        kind = str(item.get("kind")).partition(".")[2].replace("_", " ")
        yield f"  {when} UTC  {printable(kind)}" + (f": {printable(reason, 500)}" if reason else "")


def _time(at_ms: object) -> str:
    if not is_whole(at_ms) or not 0 <= at_ms < 253_402_300_800_000:  # the year 10000
        return "?"
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _mappings(value: object) -> Sequence[Mapping[str, Any]]:
    return [mapping_or_empty(item) for item in value] if isinstance(value, list) else []
