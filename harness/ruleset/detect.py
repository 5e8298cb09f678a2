"""Which ruleset results are judged by where nobody says: the one that a log of ours names, or MLPerf's round. Pure.

All results of one call are judged by one ruleset. The first result that points to one decides, and whatever points to
another ends the call: no submitter's log may choose for the others. A result that points to none follows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import UsageError, printable
from harness.log import events as key
from harness.ruleset.whichround import Candidate, absolute, which_round
from harness.submission.result import Result

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
            named = log.field(key.TTA_RULES, "ruleset")
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
