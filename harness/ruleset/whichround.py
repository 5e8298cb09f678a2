"""Which of MLPerf's rounds a log was made for, by what it says of itself. Pure.

A log does not name its round. It names a benchmark, which some rounds have, and it has a date: what was published
before it was written cannot hold it. What is left may be several rounds, as a log may be submitted again later; then
the round that the organiser's folder is named after decides, as in `training_results_v5.1`, else the first of them.

It must be the organiser's: a folder whose whole name is that of a round's tree: v5.1, training_v5.1,
mlperf_training_v5.1, training_results_v5.1, mlperf_training_results_v5.1, or one of these with the -main or -master of
an archive. Where the log lies at <submitter>/results/<system>/<benchmark>, only folders above <submitter> count. Those
that whoever asks has named, and those above them, come first, the nearest before the others; then those below, the
topmost first, down to the one above a folder with results/ in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

from harness.errors import printable
from harness.log.run_log import RunLog
from harness.submission import layout

_FOLDER = re.compile(r"(?:(?:mlperf_)?training_(?:results_)?)?v([0-9]{1,3}\.[0-9]{1,3})(?:-main|-master)?")

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
    """The round that a log is judged by, and why, as half a sentence. folder: what the organiser's folder names."""

    name: str
    why: str
    folder: str | None = None


def which_round(log: RunLog, candidates: Sequence[Candidate], given: Container[Path]) -> Choice | None:
    """The round of `log`; None where it names no benchmark that any round has.

    given: the folders that whoever asks has named, absolute, and all above them.
    """
    benchmark = log.value("submission_benchmark")
    rounds = sorted(candidates, key=lambda candidate: candidate.published)
    having = [candidate for candidate in rounds if benchmark in candidate.benchmarks] if _is_text(benchmark) else []
    if not having:
        return None
    shown, day = printable(benchmark, 40), _day_of(log)
    possible = [candidate for candidate in having if day is None or candidate.published >= day]
    named = [(folder, one) for folder, version in _named(log.path, given) for one in rounds if one.version == version]
    said = named[0][1].name if named else None
    if not possible:
        return Choice(having[-1].name, f"the last round that has {shown}, though the log is of {day}, after it", said)
    for folder, candidate in named:
        if candidate in possible:
            why = f"by the name of its folder {printable(folder, 60)}; the log names {shown}{_of(day)}"
            return Choice(candidate.name, why, said)
    which = "the only round that has" if len(possible) == 1 else f"the first of {len(possible)} rounds that have"
    return Choice(possible[0].name, f"{which} {shown}{_of(day)}", said)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _of(day: str | None) -> str:
    return f" and is of {day}" if day is not None else ""


def _day_of(log: RunLog) -> str | None:
    """The latest day of a line, so that one line of a year before chooses no round; None where no calendar has it."""
    latest_ms = max(map(attrgetter("time_ms"), log.events))  # it has one: it names a benchmark
    if not 0 <= latest_ms < _YEAR_10000_MS:
        latest_ms = max((event.time_ms for event in log.events if 0 <= event.time_ms < _YEAR_10000_MS), default=-1)
    return datetime.fromtimestamp(latest_ms / 1e3, UTC).date().isoformat() if latest_ms >= 0 else None


def absolute(path: Path) -> Path:
    """`path` from the root, without `..`; links keep their own names."""
    return Path(os.path.abspath(path))  # noqa: PTH100  (what a link leads to has another name)


def _named(path: Path, given: Container[Path]) -> list[tuple[str, str]]:
    """The folders of the organiser's that are named after a round, with its version, the one that decides first."""
    folders = list(absolute(path).parents)
    if layout.is_place(folders[0]):
        folders = folders[4:]  # <benchmark>, <system>, results and <submitter>
    above = [folder.name for folder in folders if folder in given]
    below = [folder.name for folder in reversed(folders) if folder not in given]
    if layout.RESULTS in (line := [*above[:1], *below]):
        below = line[len(above[:1]) : max(line.index(layout.RESULTS) - 1, 0)]
    matches = [(name, _FOLDER.fullmatch(name)) for name in (*above, *below)]
    return [(name, match.group(1)) for name, match in matches if match is not None]
