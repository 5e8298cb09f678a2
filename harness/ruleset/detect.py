"""Which ruleset results are judged by with `--ruleset auto`: the one that `tta`'s log names, or an MLPerf round. Pure.

All results of one call are judged by one ruleset. The first result that asks for one decides, and a result that asks
for another ends the call: no submitter's log may choose for the others. A result that asks for none follows the rest.

A log of MLPerf does not name its round. It names a benchmark, which only some rounds have, and it has a date: a round
whose results were published earlier cannot include it. Several rounds may be left, because a log can be submitted
again later; then the round that the organiser's folder is named after decides, as in `training_results_v5.1`, else the
first of them.

The folder must be the organiser's: its whole name must be that of a round's tree (v5.1, training_v5.1,
mlperf_training_v5.1, training_results_v5.1, mlperf_training_results_v5.1, or one of these with the -main or -master of
an archive). If the log is at <submitter>/results/<system>/<benchmark>, only folders above <submitter> count. Folders
that the caller named and those above them take precedence, the nearest first; then come those below, the topmost first,
down to the one above a folder with results/ in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

from harness.errors import UsageError, printable
from harness.log import keys
from harness.log.run_log import RunLog
from harness.submission import layout
from harness.submission.result import Result

DEFAULT_RULESET = "v1"
MAX_UNDECIDED = 10  # results with logs that are held back until one asks for a ruleset
_FOLDER = re.compile(r"(?:(?:mlperf_)?training_(?:results_)?)?v([0-9]{1,3}\.[0-9]{1,3})(?:-main|-master)?")
_YEAR_10000_MS = 253_402_300_800_000
_REMEDY = "judge all of them by one with --ruleset NAME, or judge their folders separately"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A round: the ruleset's name, the day its results were published (YYYY-MM-DD), and its benchmarks."""

    name: str
    published: str
    benchmarks: frozenset[str]

    @property
    def version(self) -> str:
        """`5.1` of `mlperf_training/5.1.0`."""
        return ".".join(self.name.rpartition("/")[2].split(".")[:2])


@dataclass(frozen=True, slots=True)
class RoundChoice:
    """The round for a log, and why, as half a sentence. folder: the round that the organiser's folder names."""

    name: str
    why: str
    folder: str | None = None


def detect_round(log: RunLog, candidates: Sequence[Candidate], named: Container[Path]) -> RoundChoice | None:
    """Return the round for `log`; None if it names no benchmark that any round has.

    named: the folders that the caller named, absolute, and all above them.
    """
    benchmark = log.value("submission_benchmark")
    rounds = sorted(candidates, key=lambda candidate: candidate.published)
    having = [one for one in rounds if benchmark in one.benchmarks] if isinstance(benchmark, str) else []
    if not having:
        return None
    shown, day = printable(benchmark, 40), _last_day(log)
    possible = [candidate for candidate in having if day is None or candidate.published >= day]
    versions = _versions_in_path(log.path, named)
    by_folder = [(folder, one) for folder, version in versions for one in rounds if one.version == version]
    folder_round = by_folder[0][1].name if by_folder else None
    dated = "" if day is None else f" and is dated {day}"
    if not possible:
        why = f"the last round that has {shown}, although the log is dated {day}, after it"
        return RoundChoice(having[-1].name, why, folder_round)
    for folder, candidate in by_folder:
        if candidate in possible:
            why = f"by the name of its folder {printable(folder, 60)}; the log names {shown}{dated}"
            return RoundChoice(candidate.name, why, folder_round)
    which = "the only round that has" if len(possible) == 1 else f"the first of {len(possible)} rounds that have"
    return RoundChoice(possible[0].name, f"{which} {shown}{dated}", folder_round)


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


def _versions_in_path(path: Path, named: Container[Path]) -> list[tuple[str, str]]:
    """Return the organiser's folders that are named after a round, with its version; the first has precedence."""
    folders = list(_absolute(path).parents)
    if layout.is_result_place(folders[0]):
        folders = folders[4:]  # without <benchmark>, <system>, results and <submitter>
    above = [folder.name for folder in folders if folder in named]
    below = [folder.name for folder in reversed(folders) if folder not in named]
    if layout.RESULTS in (line := [*above[:1], *below]):
        below = line[len(above[:1]) : max(line.index(layout.RESULTS) - 1, 0)]
    matches = [(name, _FOLDER.fullmatch(name)) for name in (*above, *below)]
    return [(name, match.group(1)) for name, match in matches if match is not None]


@dataclass(frozen=True, slots=True)
class Request:
    """The ruleset that the result at `path` asks for, and why. folder: the round that the organiser's folder names."""

    name: str
    why: str
    path: Path
    folder: str | None = None

    @property
    def is_contradicted(self) -> bool:
        """Whether the organiser's folder names another round."""
        return self.folder not in (None, self.name)

    def __str__(self) -> str:
        return f"{printable(self.path, 300)} for {self.name} ({self.why.lstrip(',; ')})"


@dataclass(frozen=True, slots=True)
class Detector:
    """Detects the ruleset of a result, and holds all results to one.

    own: the rulesets that a log of `tta` may name: those that come with the harness and are not MLPerf rounds.
    rounds: those that are. named: the folders that the caller named, absolute, and all above them. chosen: the request
    that decides; None before it is known, and if no result makes one.
    """

    own: frozenset[str]
    rounds: tuple[Candidate, ...]
    named: frozenset[Path]
    chosen: Request | None = None

    def request_of(self, result: Result) -> Request | None:
        """Return what the first log of `result` asks for that asks for anything.

        A log of `tta` names its ruleset, which is never an MLPerf round, nor a folder, whatever it is called. Of a log
        of another program only what it was made for counts, whatever it names.
        """
        for log in result.runs:
            if log.is_foreign:
                choice = detect_round(log, self.rounds, self.named)
                if choice is not None:
                    return Request(choice.name, f", {choice.why}", result.path, choice.folder)
                continue
            ruleset = log.field(keys.TTA_RULES, "ruleset")
            if isinstance(ruleset, str) and ruleset in self.own:
                return Request(ruleset, f", which {printable(log.path.name, 60)} names", result.path)
            if ruleset is not None:
                why = f"; {printable(ruleset, 60)!r} is not one of tta's own rulesets"
                return Request(DEFAULT_RULESET, why, result.path)
        return None

    def decide(self, results: Iterator[Result]) -> tuple[list[Result], Detector]:
        """Return the results that had to be read until one asked for a ruleset, and this detector with the choice.

        A request that the organiser's folder contradicts decides only if there is no better one.

        Raises:
            UsageError: they ask for two.
        """
        kept: list[Result] = []
        requests: list[Request] = []
        num_with_logs = 0
        for result in results:
            kept.append(result)
            num_with_logs += bool(result.runs)
            if (request := self.request_of(result)) is not None:
                requests.append(request)
                if not request.is_contradicted:
                    break
            if num_with_logs == MAX_UNDECIDED:
                break
        decided = replace(self, chosen=min(requests, key=lambda request: request.is_contradicted, default=None))
        for request in requests:
            decided._refuse(request)
        return kept, decided

    @property
    def name(self) -> str:
        """The ruleset that was chosen; v1 if none was."""
        return DEFAULT_RULESET if self.chosen is None else self.chosen.name

    @property
    def why(self) -> str:
        return "; no log names one" if self.chosen is None else self.chosen.why

    def refuse_other(self, result: Result) -> None:
        """Check that the result may be judged by the ruleset that was chosen.

        Raises:
            UsageError: it asks for another.
        """
        request = self.request_of(result)
        if request is not None:
            self._refuse(request)

    def _refuse(self, request: Request) -> None:
        if self.chosen is None:
            if request.name != self.name:
                raise UsageError(f"the first {MAX_UNDECIDED} results ask for no ruleset, {request}; {_REMEDY}")
        elif self.chosen.name not in (request.name, request.folder):
            raise UsageError(f"these results ask for two rulesets: {self.chosen}, {request}; {_REMEDY}")


def with_parents(paths: Iterable[Path]) -> frozenset[Path]:
    """Return the `paths`, absolute, and all folders above them."""
    places = [_absolute(path) for path in paths]
    return frozenset(folder for place in places for folder in (place, *place.parents))
