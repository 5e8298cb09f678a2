"""What the head of a log says of the run beside its score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from harness.board.pages.words import value_words
from harness.log.run_log import RunLog

_LAST_MS = 253_402_300_800_000  # the year 10000


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What the head of a log says beside its score. Values are as logged: untrusted."""

    name: str
    sha256: str
    num_bytes: int
    started: str | None  # a date, YYYY-MM-DD, in UTC
    config: Mapping[str, Any]
    facts: tuple[tuple[str, str], ...]


def log_facts(log: RunLog) -> LogFacts:
    config = log.value("tta_config")
    start = log.first("run_start") or log.first("init_start")
    facts: list[tuple[str, str]] = []

    def note(name: str, value: object) -> None:
        if value is not None:
            facts.append((name, value_words(value)))

    note("harness", log.field("tta_format", "harness"))
    note("run", log.field("tta_format", "run_id"))
    note("ruleset named", log.field("tta_rules", "ruleset"))
    note("digest of the benchmark's terms", log.field("tta_rules", "terms_digest"))
    note("digest of the data", log.field("tta_data", "digest"))
    note("cache cleared", log.value("cache_clear"))
    world = log.value("tta_world")
    if isinstance(world, list):
        note("processes", len(world))
        ranks = [rank for rank in world if isinstance(rank, dict)]
        note("devices", sorted({str(rank.get("device")) for rank in ranks}))
        note("versions", next((rank.get("versions") for rank in ranks), None))
    note("energy", log.value("tta_energy"))
    return LogFacts(
        name=log.path.name,
        sha256=log.sha256,
        num_bytes=log.num_bytes,
        started=None if start is None else _day(start.time_ms),
        config=config if isinstance(config, dict) else {},
        facts=tuple(facts),
    )


def _day(time_ms: float) -> str | None:
    """The date in UTC; None for a number that is no time of ours."""
    return datetime.fromtimestamp(time_ms / 1e3, UTC).date().isoformat() if 0 <= time_ms < _LAST_MS else None
