"""Which ruleset a result is judged by with `--ruleset auto`: the one that `tta`'s log names, or an MLPerf round. Pure.

Each result is judged by its own: nothing but the result itself and the folders above it decides, so no submitter's log
chooses for another, and a result is judged alike alone and in any tree.

A log of MLPerf does not name its round. If it is in a folder of the organiser's that is named after a round, as in
`training_results_v5.1`, that round holds, whatever the log says: a submitter who dates a log otherwise, or names a
benchmark of another round, is judged by the round handed in for. Elsewhere benchmark and date are all there is: only
some rounds have the benchmark, and a round whose results were published before the day of the log cannot include it.
The first round left is taken, or the last that has the benchmark if none is left.

The folder must be the organiser's: its whole name must be that of a round's tree (v5.1, training_v5.1,
mlperf_training_v5.1, training_results_v5.1, mlperf_training_results_v5.1, or one of these with the -main or -master of
an archive). If the log is at <submitter>/results/<system>/<benchmark>, only folders above <submitter> count. Folders
that the caller named and those above them take precedence, the nearest first; then come those below, the topmost first,
down to the one above a folder with results/ in it. Where two of them name rounds, the first that can include the log
decides.

A result without any log that points to a ruleset is judged by the round of its folder, else by v1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

from harness.errors import printable
from harness.log import keys
from harness.log.run_log import RunLog
from harness.mlperf.model import last_day
from harness.submission import layout
from harness.submission.result import Result

DEFAULT_RULESET = "v1"
_FOLDER = re.compile(r"(?:(?:mlperf_)?training_(?:results_)?)?v([0-9]{1,3}\.[0-9]{1,3})(?:-main|-master)?")
_YEAR_10000_MS = 253_402_300_800_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A round: the ruleset's name, the day its results were published (YYYY-MM-DD, or empty), and its benchmarks."""

    name: str
    published: str
    benchmarks: frozenset[str]

    @property
    def version(self) -> str:
        """`5.1` of `mlperf_training/5.1.0`."""
        return ".".join(self.name.rpartition("/")[2].split(".")[:2])


@dataclass(frozen=True, slots=True)
class Choice:
    """The ruleset of a result, and why, as the end of a sentence about it. is_default: nothing points to one."""

    name: str
    why: str
    is_default: bool = False


def detect_round(log: RunLog, candidates: Sequence[Candidate], named: Container[Path]) -> Choice | None:
    """Return the round for `log`; None if no folder names one and no round has the benchmark.

    named: the folders that the caller named, absolute, and all above them.
    """
    benchmark = log.value("submission_benchmark")
    rounds = sorted(candidates, key=lambda candidate: last_day(candidate.published))
    having = [one for one in rounds if benchmark in one.benchmarks] if isinstance(benchmark, str) else []
    shown, day = printable(benchmark, 40), _last_day(log) if having else None
    possible = [candidate for candidate in having if day is None or last_day(candidate.published) >= day]
    dated = "" if day is None else f" and is dated {day}"
    if by_folder := _rounds_of_folders(log.path.parent, rounds, named):
        folder, chosen = next((pair for pair in by_folder if pair[1] in possible), by_folder[0])
        if chosen in possible:
            because = f"; the log names {shown}{dated}"
        elif chosen in having:
            because = f", although the log is dated {day}, after it"
        else:
            because = "" if benchmark is None else f", which does not have the benchmark {shown}"
        return Choice(chosen.name, f", by the name of its folder {printable(folder, 60)}{because}")
    if not having:
        return None
    if not possible:
        why = f", the last round that has {shown}, although the log is dated {day}, after it"
        return Choice(having[-1].name, why)
    which = "the only round that has" if len(possible) == 1 else f"the first of {len(possible)} rounds that have"
    return Choice(possible[0].name, f", {which} {shown}{dated}")


def _rounds_of_folders(
    folder: Path, rounds: Sequence[Candidate], named: Container[Path]
) -> list[tuple[str, Candidate]]:
    """Return the organiser's folders at or above `folder` that name a known round; the first has precedence."""
    versions = _versions_in_path(folder, named)
    return [(name, one) for name, version in versions for one in rounds if one.version == version]


def _last_day(log: RunLog) -> str | None:
    """Return the latest day of any line; None if it is in no calendar.

    Not the first: a single line dated a year early must not choose the round.
    """
    latest_ms = max(map(attrgetter("time_ms"), log.events))  # there are events: one names a benchmark
    if not 0 <= latest_ms < _YEAR_10000_MS:
        latest_ms = max((event.time_ms for event in log.events if 0 <= event.time_ms < _YEAR_10000_MS), default=-1)
    return datetime.fromtimestamp(latest_ms / 1e3, UTC).date().isoformat() if latest_ms >= 0 else None


def _absolute(path: Path) -> Path:
    """Return `path` from the root, without `..`; links keep their own names."""
    return Path(os.path.abspath(path))  # noqa: PTH100  (the target of a link has another name)


def _versions_in_path(folder: Path, named: Container[Path]) -> list[tuple[str, str]]:
    """Return the organiser's folders that are named after a round, with its version; the first has precedence."""
    place = _absolute(folder)
    folders = [place, *place.parents]
    if layout.is_result_place(folders[0]):
        folders = folders[4:]  # without <benchmark>, <system>, results and <submitter>
    above = [folder.name for folder in folders if folder in named]
    below = [folder.name for folder in reversed(folders) if folder not in named]
    if layout.RESULTS in (line := [*above[:1], *below]):
        below = line[len(above[:1]) : max(line.index(layout.RESULTS) - 1, 0)]
    matches = [(name, _FOLDER.fullmatch(name)) for name in (*above, *below)]
    return [(name, match.group(1)) for name, match in matches if match is not None]


@dataclass(frozen=True, slots=True)
class Detector:
    """Detects the ruleset of a result.

    own: the rulesets that a log of `tta` may name: those that come with the harness and are not MLPerf rounds.
    rounds: those that are. named: the folders that the caller named, absolute, and all above them.
    """

    own: frozenset[str]
    rounds: tuple[Candidate, ...]
    named: frozenset[Path]

    def choose(self, result: Result) -> Choice:
        """Return what the first log of `result` points to that points to anything.

        A log of `tta` names its ruleset, which is never an MLPerf round, nor a folder, whatever it is called. Of a log
        of another program only what it was made for counts, whatever it names.
        """
        for log in result.runs:
            if log.is_foreign:
                choice = detect_round(log, self.rounds, self.named)
                if choice is not None:
                    return choice
                continue
            ruleset = log.field(keys.TTA_RULES, "ruleset")
            if isinstance(ruleset, str) and ruleset in self.own:
                return Choice(ruleset, f", which {printable(log.path.name, 60)} names")
            if ruleset is not None:
                return Choice(DEFAULT_RULESET, f"; {printable(ruleset, 60)!r} is not one of tta's own rulesets")
        folder = result.path.parent if result.kind == "log" else result.path
        for name, candidate in _rounds_of_folders(folder, self.rounds, self.named):
            return Choice(candidate.name, f", by the name of its folder {printable(name, 60)}")
        return Choice(DEFAULT_RULESET, "; no log names one", is_default=True)


def with_parents(paths: Iterable[Path]) -> frozenset[Path]:
    """Return the `paths`, absolute, and all folders above them."""
    places = [_absolute(path) for path in paths]
    return frozenset(folder for place in places for folder in (place, *place.parents))
