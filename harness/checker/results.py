"""The results that a verb is about: found, read one at a time, and each with the ruleset it is judged by.

The ruleset `auto` stands for the one that a result points to (`harness.ruleset.detect`). What cannot be read is
reported on standard error and keeps nothing else from being read; the last of it ends the verb once the others are
done.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from harness.errors import InputError, printable
from harness.ruleset import catalog, load
from harness.ruleset.detect import Choice, Detector, with_parents
from harness.ruleset.model import RuleSet
from harness.submission.claim import Unreadable
from harness.submission.result import (
    Result,
    beyond_limit,
    find_results,
    read_result,
    require_runs,
    unreadable_parts,
)

AUTO = "auto"


class Rulesets:
    """The ruleset of each result: the one that was named for all, or with `auto` each result's own.

    detector: chooses where the name is `auto`, else None. used: those loaded so far, by name.
    """

    def __init__(self, name: str, detector: Detector | None) -> None:
        self.name, self.detector = name, detector
        self.used: dict[str, RuleSet] = {}
        self._announced: set[str] = set()

    @classmethod
    def named(cls, name: str, paths: Iterable[Path]) -> Rulesets:
        """Those of the results at or below `paths`, where `name` was given as the ruleset.

        Raises:
            UsageError: there is none of that name. RulesError: it cannot be read.
        """
        if name == AUTO:
            return cls(name, detector_for(paths))
        found = cls(name, None)
        found.load(name)
        return found

    def of(self, result: Result) -> tuple[RuleSet, str]:
        """The ruleset that `result` is judged by, announced, and why it is that one."""
        choice = self.choose(result)
        ruleset = self.load(choice.name)
        self.announce(result.path, f"judging by ruleset {choice.name}", choice.why)
        return ruleset, choice.why

    def choose(self, result: Result) -> Choice:
        """The name of the ruleset of `result`, and why it is that one."""
        return Choice(self.name, "") if self.detector is None else self.detector.choose(result)

    def load(self, name: str) -> RuleSet:
        """The ruleset `name`; it is read once.

        Raises:
            UsageError: there is none. RulesError: it cannot be read.
        """
        if name not in self.used:
            self.used[name] = load.load_ruleset(catalog.ruleset_folder(name), name)
        return self.used[name]

    def announce(self, path: Path | str, words: str, why: str) -> None:
        """Say on standard error what `auto` stands for, once for each ruleset: by the first result that has it.

        words: such as "judging by ruleset v1". why: as in `Choice`.
        """
        if self.detector is None or words in self._announced:
            return
        place = f"{printable(path, 300)}: " if self._announced else ""
        self._announced.add(words)
        print(f"tta: {place}{words}{why}", file=sys.stderr)


class Results:
    """Results in the order in which they were found; each is read when it is its turn and then forgotten.

    rulesets: by which they are judged. paths: where they are. unreadable: what was not read, and why.
    """

    def __init__(
        self, found: Iterable[Path], rulesets: Rulesets, read: Callable[[Path], Result], left_out: str | None
    ) -> None:
        self.rulesets = rulesets
        self.paths = list(found)
        self.unreadable: list[Unreadable] = []
        self._read, self._left_out = read, left_out
        self._last: InputError | None = None

    def __iter__(self) -> Iterator[Result]:
        """Every result that can be read."""
        for path in self.paths:
            try:
                result = self._read(path)
                if self._left_out is not None:
                    for part in unreadable_parts(result):
                        self._skip_part(part, self._left_out)
                    require_runs(result)
            except InputError as error:
                self.skip(path, error)
                continue
            yield result

    def skip(self, path: Path, error: InputError) -> None:
        """Note that the result at `path` cannot be read. The last such error is kept for `raise_unreadable`."""
        self.unreadable.append(Unreadable(path, str(error).removeprefix(f"{path}: ")))
        if self._last is not None:
            print(f"tta: {printable(self._last, 2000)}", file=sys.stderr)
        self._last = error

    def raise_unreadable(self) -> None:
        """Raises:
        InputError: the last result that could not be read.
        """
        if self._last is not None:
            raise self._last

    def _skip_part(self, part: Unreadable, left_out: str) -> None:
        self.unreadable.append(part)
        print(f"tta: {printable(part.path)}: {left_out}: {printable(part.message, 500)}", file=sys.stderr)


def open_results(
    paths: list[Path],
    ruleset_name: str,
    *,
    found: Iterable[Path] | None = None,
    read: Callable[[Path], Result] = read_result,
    left_out: str | None = None,
) -> Results:
    """The results at or below `paths`, and the rulesets to judge them by.

    found, read: what finds and reads them, where that is not `find_results` and `read_result`. left_out: what happens
    to a log that cannot be read, as half a sentence; each is reported, and a result without any other log counts as
    unreadable. Without it, such a log is the caller's to report.

    Raises:
        SubmissionError: a path does not exist, or has no result. UsageError: there is no such ruleset.
    """
    if found is None:
        found = (result for path in paths for result in find_results(path))
    by_place: dict[Path, Path] = {}
    for path in found:
        by_place.setdefault(path.absolute(), path)  # a result that is named twice is one, as it was named first
    found = list(by_place.values())
    refused = beyond_limit(found)
    rulesets = Rulesets.named(ruleset_name, paths)
    results = Results((path for path in found if path not in refused), rulesets, read, left_out)
    for path, error in refused.items():
        results.skip(path, error)
    return results


def detector_for(paths: Iterable[Path]) -> Detector:
    """Chooses the ruleset of a result at or below `paths` among those that come with `tta`."""
    rounds = load.round_candidates(catalog.ruleset_folders())
    own = {name for name, _ in catalog.ruleset_folders()}.difference(one.name for one in rounds)
    return Detector(frozenset(own), tuple(rounds), with_parents(paths))
