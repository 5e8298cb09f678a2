"""Which ruleset results are judged by where nobody says: the one that a log of ours names, or MLPerf's round. Pure.

All results of one call are judged by one ruleset. The first result that points to one decides, and whatever points to
another ends the call: no submitter's log may choose for the others. A result that points to none follows them.
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


DEFAULT_RULESET, NAMED_BY_NONE = "v1", "; no log names one"
MAX_UNDECIDED = 10  # results with logs that are kept until one says by what they are to be judged


@dataclass(frozen=True, slots=True)
class Pointed:
    """What the result at `path` would be judged by, and why. folder: the round that the organiser's folder names."""

    name: str
    why: str
    path: Path
    folder: str | None = None

    @property
    def is_contradicted(self) -> bool:
        """Whether the organiser's folder says otherwise."""
        return self.folder not in (None, self.name)


@dataclass(frozen=True, slots=True)
class Auto:
    """Finds the ruleset of a result, and holds all of them to one.

    own: the rulesets that a log of ours may name, those that come with the harness and are no round of MLPerf's.
    rounds: these. given: the folders that whoever asks has named, absolute, and all above them. chosen: what decides;
    None before that is known, and where no result points to any.
    """

    own: frozenset[str]
    rounds: tuple[Candidate, ...]
    given: frozenset[Path]
    chosen: Pointed | None = None

    def of(self, result: Result) -> Pointed | None:
        """What the first log of `result` that says anything points to.

        A log of ours names its ruleset, and never a round of MLPerf's; a folder is no ruleset, whatever its name. Of
        a log of another program only what it was made for counts, whatever it names.
        """
        for log in result.runs:
            if log.is_foreign:
                choice = which_round(log, self.rounds, self.given)
                if choice is not None:
                    return Pointed(choice.name, f", {choice.why}", result.path, choice.folder)
                continue
            named = log.field(keys.TTA_RULES, "ruleset")
            if isinstance(named, str) and named in self.own:
                return Pointed(named, f", which {printable(log.path.name, 60)} names", result.path)
            if named is not None:
                why = f"; there is no {printable(named, 60)!r} for a log of ours"
                return Pointed(DEFAULT_RULESET, why, result.path)
        return None

    def decided(self, results: Iterator[Result]) -> tuple[list[Result], Auto]:
        """The results that had to be read until one of them pointed to a ruleset, and this with the choice.

        One that the organiser's folder contradicts decides only where none does better.

        Raises:
            UsageError: they point to two.
        """
        kept: list[Result] = []
        pointed: list[Pointed] = []
        num_with_logs = 0
        for result in results:
            kept.append(result)
            num_with_logs += bool(result.runs)
            if (found := self.of(result)) is not None:
                pointed.append(found)
                if not found.is_contradicted:
                    break
            if num_with_logs == MAX_UNDECIDED:
                break
        decided = replace(self, chosen=min(pointed, key=lambda one: one.is_contradicted, default=None))
        for found in pointed:
            decided._same(found)
        return kept, decided

    @property
    def name(self) -> str:
        """The ruleset that was chosen; v1 where none was."""
        return DEFAULT_RULESET if self.chosen is None else self.chosen.name

    @property
    def why(self) -> str:
        return NAMED_BY_NONE if self.chosen is None else self.chosen.why

    def refuse_other(self, result: Result) -> None:
        """Raises:
        UsageError: the result points to another ruleset than the one that was chosen.
        """
        found = self.of(result)
        if found is not None:
            self._same(found)

    def _same(self, found: Pointed) -> None:
        chosen = self.chosen
        if chosen is None:
            if found.name != self.name:
                raise UsageError(f"the first {MAX_UNDECIDED} results point to no ruleset, {_said(found)}; {_CHOICES}")
        elif chosen.name not in (found.name, found.folder):
            raise UsageError(f"these results point to two rulesets: {_said(chosen)}, {_said(found)}; {_CHOICES}")


_CHOICES = "judge all of them by one with --ruleset NAME, or their folders one by one"


def _said(pointed: Pointed) -> str:
    return f"{printable(pointed.path, 300)} to {pointed.name} ({pointed.why.lstrip(',; ')})"


def given(paths: Iterable[Path]) -> frozenset[Path]:
    """The `paths`, absolute, and all folders above them."""
    places = [absolute(path) for path in paths]
    return frozenset(folder for place in places for folder in (place, *place.parents))
