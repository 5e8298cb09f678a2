"""The results that a verb is about: found, read one at a time, and held to one ruleset.

The ruleset `auto` stands for the one that the results point to (`harness.ruleset.detect`). What cannot be read is
reported on standard error and keeps nothing else from being read; the last of it ends the verb once the others are
done.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from harness.errors import InputError, printable
from harness.ruleset import catalog
from harness.ruleset.detect import Detector, with_parents
from harness.ruleset.load import round_candidates
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


class Results:
    """Results in the order in which they were found; each is read when it is its turn and then forgotten.

    ruleset_name: the ruleset to judge by, never `auto`. auto: how it was chosen; None where it was named.
    unread: the results that are still to be read. unreadable: what was not read, and why.
    """

    def __init__(
        self,
        found: Iterable[Path],
        ruleset_name: str,
        auto: Detector | None,
        read: Callable[[Path], Result],
        left_out: str | None,
    ) -> None:
        self.ruleset_name, self.auto = ruleset_name, auto
        self.unread = deque(found)
        self.unreadable: list[Unreadable] = []
        self._already_read: deque[Result] = deque()
        self._read, self._left_out = read, left_out
        self._last: InputError | None = None

    def __iter__(self) -> Iterator[Result]:
        """Every result.

        Raises:
            UsageError: one points to another ruleset than the one chosen.
        """
        yield from self.already_read()
        for result in self._readable():
            if self.auto is not None:
                self.auto.refuse_other(result)
            yield result

    @property
    def has_any(self) -> bool:
        """Whether a result was read to choose the ruleset: where none can be read there is none to judge."""
        return bool(self._already_read)

    def already_read(self) -> Iterator[Result]:
        """The results that had to be read to choose the ruleset; none is kept."""
        while self._already_read:
            yield self._already_read.popleft()

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

    def choose(self, paths: Iterable[Path]) -> Detector:
        """Read results until one points to a ruleset, and hold the others to it.

        Raises:
            UsageError: they point to two.
        """
        read, self.auto = auto_of(paths).decide(self._readable())
        self._already_read.extend(read)
        self.ruleset_name = self.auto.name
        return self.auto

    def _readable(self) -> Iterator[Result]:
        while self.unread:
            path = self.unread.popleft()
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
    announce: Callable[[Detector], None] | None = None,
) -> Results:
    """The results at or below `paths`, and the ruleset to judge them by.

    found, read: what finds and reads them, where that is not `find_results` and `read_result`. left_out: what happens
    to a log that cannot be read, as half a sentence; each is reported, and a result without any other log counts as
    unreadable. Without it, such a log is the caller's to report. announce: says which ruleset `auto` stands for, if
    not as "judging by ...".

    Raises:
        SubmissionError: a path does not exist, or has no result. UsageError: the results point to two rulesets.
    """
    if found is None:
        found = dict.fromkeys(result for path in paths for result in find_results(path))
    found = list(found)
    refused = beyond_limit(found)
    results = Results((path for path in found if path not in refused), ruleset_name, None, read, left_out)
    for path, error in refused.items():
        results.skip(path, error)
    if ruleset_name == AUTO:
        auto = results.choose(paths)
        if results.has_any:
            (announce or _announce)(auto)
    return results


def auto_of(paths: Iterable[Path]) -> Detector:
    """Chooses the ruleset of the results at or below `paths` among those that come with `tta`."""
    rounds = round_candidates(catalog.ruleset_folders())
    own = {name for name, _ in catalog.ruleset_folders()}.difference(one.name for one in rounds)
    return Detector(frozenset(own), tuple(rounds), with_parents(paths))


def _announce(auto: Detector) -> None:
    print(f"tta: judging by ruleset {auto.name}{auto.why}", file=sys.stderr)
