"""Which of MLPerf's rounds a log was made for, by what it says of itself. Pure.

A log does not name its round. It names a benchmark, which some rounds have, and it has a date: what was published
before it was written cannot hold it. What is left may be several rounds, as a log may be submitted again later; then
the round that a folder above it is named after decides, as in `training_results_v5.1`, else the first of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.errors import printable
from harness.runlog import RunLog

_FOLDER = re.compile(r"v?([0-9]+\.[0-9]+)(?:\.[0-9]+)?$")

_YEAR_10000_MS = 253_402_300_800_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A round: the ruleset's name, the day its results were published (YYYY-MM-DD), what it has."""

    name: str
    published: str
    benchmarks: frozenset[str]

    @property
    def version(self) -> str:
        """`5.1` of `mlperf_training/5.1.0`."""
        return ".".join(self.name.rpartition("/")[2].split(".")[:2])


@dataclass(frozen=True, slots=True)
class Choice:
    """The round that a log is judged by, and why, as half a sentence."""

    name: str
    why: str


def which_round(log: RunLog, candidates: Sequence[Candidate]) -> Choice | None:
    """The round of `log`; None where it names no benchmark that any round has."""
    benchmark = log.value("submission_benchmark")
    rounds = sorted(candidates, key=lambda candidate: candidate.published)
    having = [candidate for candidate in rounds if benchmark in candidate.benchmarks] if _is_text(benchmark) else []
    if not having:
        return None
    shown, day = printable(benchmark, 40), _day_of(log)
    possible = [candidate for candidate in having if day is None or candidate.published >= day]
    if not possible:
        return Choice(having[-1].name, f"the last round that has {shown}, though the log is of {day}, after it")
    named = [candidate for part in _named(log.path) for candidate in possible if candidate.version == part]
    if named:
        return Choice(named[0].name, f"by the name of its folder; the log names {shown}{_of(day)}")
    which = "the only round that has" if len(possible) == 1 else f"the first of {len(possible)} rounds that have"
    return Choice(possible[0].name, f"{which} {shown}{_of(day)}")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _of(day: str | None) -> str:
    return f" and is of {day}" if day is not None else ""


def _day_of(log: RunLog) -> str | None:
    """The latest day of a line, so that one line of a year before chooses no round; None where no calendar has it."""
    times_ms = [event.time_ms for event in log.events if 0 <= event.time_ms < _YEAR_10000_MS]
    return datetime.fromtimestamp(max(times_ms) / 1e3, UTC).date().isoformat() if times_ms else None


def _named(path: Path) -> list[str]:
    """The rounds that folders above `path` are named after, the nearest first."""
    names = (part.name for part in path.absolute().parents)
    return [match.group(1) for name in names if (match := _FOLDER.search(name)) is not None]
